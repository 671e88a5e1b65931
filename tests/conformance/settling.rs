//! Making the attempts of a batch.

use reprieve::model::{Disposition, RecoveryStatus};
use reprieve::store::{Attempt, Begun, Outcome};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::batches::{Claimed, ended, waiting};
use crate::harness::rows::with;
use crate::harness::{
    Backend, at, attempt, begin, claim, dead_letter, id, outbox_row, recover_all, settle, source, time_text,
};

async fn claim_and_begin(store: &Backend) -> Claimed {
    let claimed = claim(&**store, 200, at(100)).await;
    let begun = begin(&**store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
    assert_eq!(begun, Begun::Done { ended: vec![] });
    claimed
}

on_both_stores! {
    async fn a_row_returns_to_its_table_and_is_settled(store: Backend) {
        let before = json!({
            "next_recovery_at": time_text(at(50)), "deferral": "failure", "status_note": "old", "recovery_attempts": 1,
            "operator_disposition": 1,
        });
        store.dead(1, before).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(settled.len(), 1);
        assert_eq!((settled[0].dead_letter_id, &settled[0].outcome), (id(1), &Outcome::Recovered));
        assert_eq!(store.source_row("wh_outbox", source(1)).await.unwrap()["event_data"], json!({"order": 1}));
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::Recovered);
        assert_eq!((letter.recovered_at, letter.last_recovery_at), (Some(at(100)), Some(at(100))));
        assert_eq!((letter.next_recovery_at, letter.deferral, letter.status_note), (None, None, None));
        assert_eq!(letter.recovery_attempts, 2);
        assert_eq!(letter.operator_disposition, Disposition::None);
        assert_eq!(letter.retried_on_generations, ["g1"]);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn of_ten_rows_the_free_ones_are_recovered_and_the_others_held(store: Backend) {
        for n in 1..=10 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        for n in [2, 5, 9] {
            store.insert("wh_outbox", &outbox_row(n)).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        for (n, outcome) in (1..=10).zip(&settled) {
            let taken = [2, 5, 9].contains(&n);
            assert_eq!(outcome.dead_letter_id, id(n));
            assert_eq!(outcome.outcome, if taken { Outcome::SourcePresent } else { Outcome::Recovered });
            let letter = store.letter(id(n)).await;
            assert_eq!(letter.recovery_attempts, 1);
            if taken {
                assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
                assert!(letter.status_note.is_some_and(|note| note.contains("wh_outbox")));
                assert_eq!(letter.recovered_at, None);
            } else {
                assert_eq!(letter.recovery_status, RecoveryStatus::Recovered);
            }
        }
        assert_eq!(store.rows_in("wh_outbox").await, 10);
        assert_eq!(store.rows_in("wh_dead_letters").await, 10, "no dead letter vanishes");
    }

    async fn every_outcome_may_meet_in_one_batch(store: Backend) {
        store.execute(&crate::harness::rows::refuse_destination(&store, "refused")).await;
        store.insert("wh_outbox", &outbox_row(2)).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        store.dead(3, json!({"destination": "refused"})).await;
        store.dead(4, json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event", "destination": null,
            "stream_id": crate::harness::stream(1), "perspective_name": "totals",
            "envelope": {"event_id": source(70), "perspective_name": "totals"},
        })).await;
        store.dead(5, json!({"source_table": "wh_inbox", "destination": null})).await;

        let settled = recover_all(&*store, at(100)).await;

        let outcomes: Vec<&Outcome> = settled.iter().map(|row| &row.outcome).collect();
        let [one, two, three, four, five] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert_eq!((one, two, five), (&&Outcome::Recovered, &&Outcome::SourcePresent, &&Outcome::Recovered));
        assert!(matches!(three, Outcome::Failed(error) if error.contains("no way")), "{three:?}");
        assert_eq!(four, &&Outcome::Gone);
        let failed = store.letter(id(3)).await;
        assert_eq!((failed.recovery_status, failed.next_recovery_at), (RecoveryStatus::Pending, Some(at(160))));
        assert!(failed.status_note.is_some_and(|note| note.contains("no way")));
        assert_eq!(failed.deferral, Some(reprieve::model::Deferral::Failure));
        assert_eq!((failed.recovery_attempts, failed.last_recovery_at), (1, Some(at(100))));
        let gone = store.letter(id(4)).await;
        assert_eq!((gone.recovery_status, gone.recovery_attempts), (RecoveryStatus::HoldForReview, 1));
        assert_eq!(store.rows_in("wh_inbox").await, 1);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn an_attempt_on_credit_spends_the_credit_and_no_budget(store: Backend) {
        store.execute(&crate::harness::rows::refuse_destination(&store, "refused")).await;
        let credit = json!({"replay_credit": "*", "replay_credit_at": time_text(at(50)), "recovery_attempts": 3});
        store.insert("wh_outbox", &outbox_row(2)).await;
        store.dead(1, credit.clone()).await;
        store.dead(2, credit.clone()).await;
        store.insert("wh_dead_letters", &with(with(dead_letter(3), credit), json!({"destination": "refused"}))).await;

        recover_all(&*store, at(100)).await;

        for n in 1..=3 {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_attempts, letter.replay_credit), (3, None), "row {n}");
            assert_eq!((letter.replay_credit_at, letter.last_recovery_at), (None, Some(at(100))), "row {n}");
        }
    }

    async fn a_failed_row_goes_where_the_decision_said(store: Backend) {
        store.execute(&crate::harness::rows::refuse_destination(&store, "orders")).await;
        for n in 1..=3 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let claimed = claim_and_begin(&store).await;
        let ends = [ended(RecoveryStatus::HoldForReview), ended(RecoveryStatus::PermanentlyFailed), waiting(at(100), 7)];
        let attempts: Vec<Attempt> =
            claimed.entries().iter().zip(ends).map(|(entry, on_failure)| attempt(entry, on_failure)).collect();

        settle(&*store, claimed.batch_id, &attempts, at(100)).await;

        let statuses = [store.letter(id(1)).await, store.letter(id(2)).await, store.letter(id(3)).await]
            .map(|letter| (letter.recovery_status, letter.next_recovery_at));
        assert_eq!(statuses[0], (RecoveryStatus::HoldForReview, None));
        assert_eq!(statuses[1], (RecoveryStatus::PermanentlyFailed, None));
        assert_eq!(statuses[2], (RecoveryStatus::Pending, Some(at(107))));
    }

    async fn each_attempt_leaves_one_record_with_its_outcome(store: Backend) {
        store.insert("wh_outbox", &outbox_row(2)).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;

        recover_all(&*store, at(100)).await;

        for n in [1, 2] {
            let decisions = store.show(id(n)).await.unwrap().unwrap().decisions;
            assert_eq!(decisions.len(), 1);
            assert_eq!((decisions[0].decision.as_str(), decisions[0].decided_at), ("recover", at(100)));
            assert_eq!(decisions[0].policy_name.as_deref(), Some("Careful"));
            assert!(decisions[0].note.as_deref().is_some_and(|note| !note.is_empty()), "the note tells the outcome");
        }
    }

    async fn a_lost_batch_re_emits_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim_and_begin(&store).await;
        let attempts = [attempt(&claimed.entries()[0], waiting(at(100), 60))];
        store.rescue(5, Some(at(200))).await.unwrap();
        let before = store.raw_letter(id(1)).await;

        let late = settle(&*store, claimed.batch_id, &attempts, at(201)).await;
        let invented = settle(&*store, Uuid::now_v7(), &attempts, at(201)).await;

        for settled in [late, invented] {
            assert_eq!(settled.len(), 1);
            assert_eq!((settled[0].dead_letter_id, &settled[0].outcome), (id(1), &Outcome::Lost));
        }
        assert_eq!(store.raw_letter(id(1)).await, before);
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_dead_letter_decisions").await), (0, 0));
    }

    async fn a_batch_is_settled_once(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim_and_begin(&store).await;
        let attempts = [attempt(&claimed.entries()[0], waiting(at(100), 60))];

        assert_eq!(settle(&*store, claimed.batch_id, &attempts, at(101)).await[0].outcome, Outcome::Recovered);
        assert_eq!(settle(&*store, claimed.batch_id, &attempts, at(102)).await[0].outcome, Outcome::Lost);

        assert_eq!(store.letter(id(1)).await.recovery_attempts, 1);
    }

    async fn a_batch_in_phase_deciding_cannot_be_settled(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        let attempts = [attempt(&claimed.entries()[0], waiting(at(100), 60))];

        assert_eq!(settle(&*store, claimed.batch_id, &attempts, at(101)).await[0].outcome, Outcome::Lost);

        assert_eq!(store.rows_in("wh_outbox").await, 0);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 1, "its host goes on with it");
    }

    async fn a_row_that_somebody_settled_meanwhile_is_lost_and_the_others_go_on(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        let claimed = claim_and_begin(&store).await;
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();
        let attempts: Vec<Attempt> =
            claimed.entries().iter().map(|entry| attempt(entry, waiting(at(100), 60))).collect();

        let settled = settle(&*store, claimed.batch_id, &attempts, at(101)).await;

        assert_eq!((&settled[0].outcome, &settled[1].outcome), (&Outcome::Lost, &Outcome::Recovered));
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::PermanentlyFailed);
        assert_eq!(store.source_row("wh_outbox", source(1)).await.map(Value::Object), None);
    }
}
