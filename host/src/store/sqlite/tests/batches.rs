//! Claim, begin, settle, rescue.

use std::time::Duration;

use uuid::Uuid;

use super::{File, at, attempt, dead, migrated, record};
use crate::model::decision::Standing;
use crate::model::{Deferral, FailureReason, RecoveryStatus};
use crate::store::{
    Begin, Begun, Cursor, Ending, NewDeadLetter, OperatorStore, Outcome, RecoveryStore, Rescued, Seen, Settle, Sweep,
    Verbs,
};

async fn ids_claimed(file: &File, max: u32, now: i64, after: Option<Cursor>) -> (Vec<Uuid>, Option<Cursor>) {
    let (_, claim) = file.claim_after(max, at(now), after).await;
    (claim.rows.iter().map(|row| row.entry.dead_letter_id).collect(), claim.cursor)
}

fn ids(letters: &[NewDeadLetter]) -> Vec<Uuid> {
    letters.iter().map(|letter| letter.dead_letter_id).collect()
}

#[tokio::test]
async fn rows_are_claimed_in_the_order_in_which_they_fall_due_and_a_pass_goes_on_where_it_stopped() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..7).map(dead).collect();
    letters[6].dead_lettered_at = Some(at(-50));
    letters[6].next_recovery_at = Some(at(10));
    letters[5].next_recovery_at = Some(at(1000));
    file.import(&letters).await;
    let (first, cursor) = ids_claimed(&file, 3, 100, None).await;
    assert_eq!(first, ids(&letters[0..3]));
    let (second, cursor) = ids_claimed(&file, 3, 100, cursor).await;
    assert_eq!(second, [letters[3].dead_letter_id, letters[4].dead_letter_id, letters[6].dead_letter_id]);
    let (third, cursor) = ids_claimed(&file, 3, 100, cursor).await;
    assert!(third.is_empty() && cursor.is_none());
    assert_eq!(file.text("select count(*) from wh_recovery_batches").await.unwrap(), "2");
}

#[tokio::test]
async fn a_row_in_a_live_batch_is_shown_as_recovering_until_its_lease_ends() {
    let file = migrated().await;
    let letters = [dead(0)];
    file.import(&letters).await;
    let id = letters[0].dead_letter_id;
    let (batch, _) = file.claim(9, jiff::Timestamp::now()).await;
    assert_eq!(file.entry(id).await.recovery_status, RecoveryStatus::Recovering);
    assert!(!file.store.recover_dead_letter(id, None).await.unwrap());
    let a_second_ago = jiff::Timestamp::now() - Duration::from_secs(1);
    assert!(file.store.renew(batch, Duration::ZERO, Some(a_second_ago)).await.unwrap());
    assert_eq!(file.entry(id).await.recovery_status, RecoveryStatus::Pending);
    assert!(file.claim(9, jiff::Timestamp::now()).await.1.rows.is_empty());
    file.store.release(batch).await.unwrap();
    assert_eq!(file.claim(9, jiff::Timestamp::now()).await.1.rows.len(), 1);
}

#[tokio::test]
async fn a_row_without_a_due_time_is_due_even_when_its_death_lies_ahead() {
    let file = migrated().await;
    let letters = [dead(500), dead(400)];
    file.import(&letters).await;
    assert!(file.store.due("g", Some(at(0))).await.unwrap().due_now);
    let (first, cursor) = ids_claimed(&file, 1, 0, None).await;
    assert_eq!(first, [letters[1].dead_letter_id]);
    assert_eq!(ids_claimed(&file, 1, 0, cursor).await.0, [letters[0].dead_letter_id]);
}

#[tokio::test]
async fn a_stream_in_a_live_batch_is_left_alone_and_the_zero_stream_is_none() {
    let file = migrated().await;
    let stream = Uuid::now_v7();
    let mut letters: Vec<_> = (0..4).map(dead).collect();
    letters[0].stream_id = Some(stream);
    letters[1].stream_id = Some(stream);
    letters[2].stream_id = Some(Uuid::nil());
    letters[3].stream_id = Some(Uuid::nil());
    file.import(&letters).await;
    let (batch, _) = file.claim(1, at(10)).await;
    assert_eq!(ids_claimed(&file, 1, 10, None).await.0, [letters[2].dead_letter_id]);
    assert_eq!(ids_claimed(&file, 9, 10, None).await.0, [letters[3].dead_letter_id]);
    file.store.release(batch).await.unwrap();
    assert_eq!(ids_claimed(&file, 9, 10, None).await.0, ids(&letters[0..2]));
}

#[tokio::test]
async fn a_credit_reserves_its_row_for_its_generation_for_an_hour() {
    let file = migrated().await;
    let mut letter = dead(0);
    letter.replay_credit = Some("shop-2.0".to_owned());
    letter.replay_credit_at = Some(at(10));
    file.import(&[letter]).await;
    assert!(ids_claimed(&file, 9, 3600 + 9, None).await.0.is_empty());
    assert!(!file.store.due(super::GENERATION, Some(at(20))).await.unwrap().due_now);
    assert!(file.store.due("shop-2.0", Some(at(20))).await.unwrap().due_now);
    assert_eq!(ids_claimed(&file, 9, 3600 + 10, None).await.0.len(), 1);
}

#[tokio::test]
async fn unreadable_rows_are_held_and_the_others_go_on() {
    let file = migrated().await;
    let letters: Vec<_> = (0..5).map(dead).collect();
    file.import(&letters).await;
    let set = |index: usize, change: &str| {
        format!("update wh_dead_letters set {change} where dead_letter_id = '{}'", letters[index].dead_letter_id)
    };
    file.sql(&set(0, "stream_id = 'none'")).await;
    file.sql(&set(1, "retried_on_generations = 'x', generation = cast(x'ff' as text)")).await;
    file.sql(&set(2, "dead_lettered_at = '2026-01-01T01:00:02+01:00'")).await;
    file.sql(&set(3, "next_recovery_at = '2026-01-01T00:00:03Z'")).await;
    let (_, claim) = file.claim(2, at(100)).await;
    assert_eq!((claim.rows.len(), claim.unreadable.len()), (0, 2));
    let (_, claim) = file.claim_after(9, at(7200), claim.cursor).await;
    assert_eq!(claim.rows.len(), 3);
    let times = "select group_concat(coalesce(next_recovery_at, dead_lettered_at)) from (select * from wh_dead_letters \
        where recovery_status = 0 order by dead_letter_id)";
    let wanted = "2026-01-01T00:00:02.000000Z,2026-01-01T00:00:03.000000Z,2026-01-01T00:00:04.000000Z";
    assert_eq!(file.text(times).await.unwrap(), wanted);
    let held = "select group_concat(status_note) from wh_dead_letters where recovery_status = 2";
    assert!(file.text(held).await.unwrap().contains("stream_id is no UUID: \"none\""));
    assert_eq!(
        file.store
            .list(&crate::store::Filter::default(), &crate::store::Page { limit: 9, after: None })
            .await
            .unwrap()
            .len(),
        5
    );
}

fn ending(letter: &NewDeadLetter, seen: Seen) -> Ending {
    Ending {
        dead_letter_id: letter.dead_letter_id,
        seen,
        standing: Standing {
            status: RecoveryStatus::Pending,
            next_recovery_at: Some(at(500)),
            deferral: Some(Deferral::Cooldown),
        },
        note: Some("cools down".to_owned()),
        policy_errors: 0,
        policy_error_digest: None,
        decision: "wait",
        record: Some(record()),
    }
}

#[tokio::test]
async fn an_ending_is_carried_out_only_when_nobody_spoke_meanwhile() {
    let file = migrated().await;
    let letters: Vec<_> = (0..3).map(dead).collect();
    file.import(&letters).await;
    let (batch_id, claim) = file.claim(9, at(100)).await;
    file.sql(&format!(
        "update wh_dead_letters set replay_credit = '*' where dead_letter_id = '{}'",
        letters[1].dead_letter_id
    ))
    .await;
    let endings: Vec<_> =
        claim.rows.iter().zip(&letters).take(2).map(|(row, letter)| ending(letter, Seen::of(&row.entry))).collect();
    let recover = [letters[2].dead_letter_id];
    let begin = Begin {
        batch_id,
        recover: &recover,
        endings: &endings,
        streams: crate::store::StreamTerms::default(),
        now: Some(at(101)),
    };
    let ended = file.store.begin(&begin).await.unwrap();
    assert_eq!(ended, Begun::Done { ended: vec![letters[0].dead_letter_id] });
    assert_eq!(file.store.begin(&begin).await.unwrap(), Begun::Lost);
    let entry = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((entry.next_recovery_at, entry.deferral), (Some(at(500)), Some(Deferral::Cooldown)));
    assert_eq!(entry.status_note.as_deref(), Some("cools down"));
    assert_eq!(file.entry(letters[1].dead_letter_id).await.next_recovery_at, None);
    assert_eq!(file.store.show(letters[0].dead_letter_id).await.unwrap().unwrap().decisions.len(), 1);
    let left = file.text("select phase || ids from wh_recovery_batches").await.unwrap();
    assert_eq!(left, format!("recovering[\"{}\"]", letters[2].dead_letter_id));
    let due = file.store.due("g", Some(at(102))).await.unwrap();
    assert_eq!((due.due_now, due.next_at), (true, Some(at(160))));
}

#[tokio::test]
async fn a_bad_row_fails_alone_and_its_error_is_kept() {
    let file = migrated().await;
    let letters: Vec<_> = (0..3).map(dead).collect();
    file.import(&letters).await;
    file.sql(&format!(
        "create trigger refuse before insert on wh_outbox when new.message_id = '{}' \
         begin select raise(abort, 'not this one'); end",
        letters[1].source_id
    ))
    .await;
    let (batch, entries) = file.begin_all(at(100)).await;
    let outcomes = file.settle(batch, &entries, at(101)).await;
    assert_eq!(outcomes, [Outcome::Recovered, Outcome::Failed("not this one".to_owned()), Outcome::Recovered]);
    let entry = file.entry(letters[1].dead_letter_id).await;
    assert_eq!((entry.recovery_status, entry.recovery_attempts), (RecoveryStatus::Pending, 1));
    assert_eq!((entry.next_recovery_at, entry.deferral), (Some(at(9000)), Some(Deferral::Failure)));
    assert_eq!(entry.status_note.as_deref(), Some("not re-emitted: not this one"));
    let shown = file.store.show(letters[1].dead_letter_id).await.unwrap().unwrap();
    assert_eq!(shown.decisions[0].note.as_deref(), Some("not re-emitted: not this one"));
    assert_eq!(file.settle(batch, &entries, at(102)).await, [Outcome::Lost, Outcome::Lost, Outcome::Lost]);
    assert_eq!(file.text("select count(*) from wh_dead_letter_decisions").await.unwrap(), "3");
}

#[tokio::test]
async fn a_credit_pays_for_its_attempt_and_one_granted_meanwhile_is_kept() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..2).map(dead).collect();
    for letter in &mut letters {
        letter.replay_credit = Some("*".to_owned());
        letter.recovery_attempts = Some(5);
    }
    file.import(&letters).await;
    file.sql(&format!(
        "create trigger refuse before insert on wh_outbox when new.message_id = '{}' begin select raise(fail, 'no'); end",
        letters[1].source_id
    ))
    .await;
    let (batch, entries) = file.begin_all(at(100)).await;
    let sweep = Sweep { generation: "shop-2.0", stagger: Duration::ZERO, now: Some(at(101)) };
    assert_eq!(file.store.sweep(&sweep).await.unwrap(), 2);
    let outcomes = file.settle(batch, &entries, at(102)).await;
    assert_eq!(outcomes, [Outcome::Recovered, Outcome::Failed("no".to_owned())]);
    let recovered = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((recovered.recovery_attempts, recovered.recovery_status), (5, RecoveryStatus::Recovered));
    let failed = file.entry(letters[1].dead_letter_id).await;
    assert_eq!((failed.recovery_attempts, failed.recovery_status), (5, RecoveryStatus::Pending));
    assert_eq!((failed.replay_credit.as_deref(), failed.next_recovery_at), (Some("shop-2.0"), Some(at(102))));
}

#[tokio::test]
async fn a_batch_whose_host_died_counts_its_attempts_or_policy_errors_when_its_lease_ends() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..3).map(dead).collect();
    letters[1].replay_credit = Some("*".to_owned());
    letters[2].failure_reason = FailureReason(2);
    file.import(&letters).await;
    let (batch_id, _) = file.claim(2, at(100)).await;
    let recover = ids(&letters[0..2]);
    file.store
        .begin(&Begin {
            batch_id,
            recover: &recover,
            endings: &[],
            streams: crate::store::StreamTerms::default(),
            now: Some(at(100)),
        })
        .await
        .unwrap();
    assert!(file.store.renew(batch_id, Duration::from_secs(60), Some(at(150))).await.unwrap());
    let (deciding, _) = file.claim(1, at(110)).await;
    assert_eq!(file.store.rescue(5, Some(at(169))).await.unwrap(), Rescued::default());
    let rescued = file.store.rescue(5, Some(at(210))).await.unwrap();
    assert_eq!(rescued, Rescued { batches: 2, attempts: 2, policy_errors: 1, held: vec![] });
    let counted = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((counted.recovery_attempts, counted.last_recovery_at), (1, Some(at(210))));
    let paid = file.entry(letters[1].dead_letter_id).await;
    assert_eq!((paid.recovery_attempts, paid.replay_credit), (0, None));
    let erred = file.entry(letters[2].dead_letter_id).await;
    assert_eq!((erred.policy_errors, erred.next_recovery_at), (1, Some(at(270))));
    assert!(!file.store.renew(deciding, Duration::from_secs(60), Some(at(211))).await.unwrap());
    let attempts: Vec<_> = [attempt(&counted)].into();
    let settle = Settle {
        batch_id,
        attempts: &attempts,
        streams: crate::store::StreamTerms::default(),
        refusal: None,
        now: Some(at(212)),
    };
    assert_eq!(file.store.settle(&settle).await.unwrap()[0].outcome, Outcome::Lost);
}

#[tokio::test]
async fn a_row_that_an_application_settled_meanwhile_is_lost_to_the_batch() {
    let file = migrated().await;
    let letters = [dead(0)];
    file.import(&letters).await;
    let (batch, entries) = file.begin_all(at(100)).await;
    file.store.mark_dead_letter_holding(letters[0].dead_letter_id).await.unwrap();
    assert_eq!(file.settle(batch, &entries, at(101)).await, [Outcome::Lost]);
    assert_eq!(file.text("select count(*) from wh_outbox").await.unwrap(), "0");
}
