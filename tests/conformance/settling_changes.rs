//! What settling makes of rows that others changed since the claim, and of what is known about their policy.

use reprieve::model::RecoveryStatus;
use reprieve::model::SourceTable;
use reprieve::store::{Attempt, Outcome};
use serde_json::json;

use crate::harness::batches::waiting;
use crate::harness::rows::{moving, refuse_destination};
use crate::harness::{Backend, at, attempt, begin, claim, id, outbox_row, recover_all, settle, source};

on_both_stores! {
    async fn a_policy_that_answered_has_no_errors_on_the_row_whatever_comes_of_the_attempt(store: Backend) {
        store.execute(&refuse_destination(&store, "refused")).await;
        store.insert("wh_outbox", &outbox_row(2)).await;
        for (n, destination) in [(1, "orders"), (2, "orders"), (3, "refused")] {
            let errors = json!({"policy_errors": 3, "policy_error_digest": "abc", "destination": destination});
            store.dead(n, errors).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!((&settled[0].outcome, &settled[1].outcome), (&Outcome::Recovered, &Outcome::SourcePresent));
        assert!(matches!(settled[2].outcome, Outcome::Failed(_)));
        for n in 1..=3 {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.policy_errors, letter.policy_error_digest), (0, None), "row {n}");
        }
    }

    async fn a_message_that_died_again_since_the_claim_is_not_re_emitted(store: Backend) {
        let errors = json!({"policy_errors": 3, "policy_error_digest": "abc", "replay_credit": "*"});
        store.dead(1, errors).await;
        store.dead(2, json!({})).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
        store.insert("wh_outbox", &outbox_row(1)).await;
        let newer = reprieve::store::Move { dead_letter_id: id(3), ..moving(SourceTable::Outbox, 1) };
        store.move_to_dead_letters(&newer).await.unwrap().expect("the row was there");
        let attempts: Vec<Attempt> =
            claimed.entries().iter().map(|entry| attempt(entry, waiting(at(100), 60))).collect();

        let settled = settle(&*store, claimed.batch_id, &attempts, at(101)).await;

        assert_eq!((&settled[0].outcome, &settled[1].outcome), (&Outcome::Superseded, &Outcome::Recovered));
        assert_eq!(store.source_row("wh_outbox", source(1)).await, None);
        assert!(store.source_row("wh_outbox", source(2)).await.is_some());
        let older = store.letter(id(1)).await;
        assert_eq!((older.recovery_status, older.next_recovery_at), (RecoveryStatus::HoldForReview, None));
        assert_eq!(older.status_note, Some(format!("superseded by {}", id(3))));
        assert_eq!((older.recovery_attempts, older.last_recovery_at), (0, None), "it took no attempt");
        assert_eq!((older.policy_errors, older.policy_error_digest), (0, None));
        assert_eq!(store.letter(id(3)).await.recovery_status, RecoveryStatus::Pending);
        let decisions = store.show(id(1)).await.unwrap().unwrap().decisions;
        assert!(decisions[0].note.as_ref().is_some_and(|note| note.contains(&id(3).to_string())), "{decisions:?}");
    }

    async fn a_batch_of_superseded_rows_alone_re_emits_nothing(store: Backend) {
        store.dead(1, json!({})).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
        store.dead(2, json!({"source_id": source(1), "incarnation": 2})).await;
        let attempts = [attempt(&claimed.entries()[0], waiting(at(100), 60))];

        let settled = settle(&*store, claimed.batch_id, &attempts, at(101)).await;

        assert_eq!(settled[0].outcome, Outcome::Superseded);
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_recovery_batches").await), (0, 0));
    }

    async fn only_rows_of_the_batch_are_settled(store: Backend) {
        store.dead(1, json!({})).await;
        store.dead(2, json!({})).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &[id(1)], &[], at(100)).await;
        let attempts: Vec<Attempt> =
            claimed.entries().iter().map(|entry| attempt(entry, waiting(at(100), 60))).collect();

        let settled = settle(&*store, claimed.batch_id, &attempts, at(101)).await;

        assert_eq!((&settled[0].outcome, &settled[1].outcome), (&Outcome::Recovered, &Outcome::Lost));
        assert_eq!(store.letter(id(2)).await.recovery_status, RecoveryStatus::Pending);
    }

    async fn both_stores_tell_an_outcome_in_the_same_words(store: Backend) {
        store.execute("alter table wh_outbox add column tenant text check (tenant <> 'nobody')").await;
        store.insert("wh_outbox", &outbox_row(2)).await;
        store.dead(1, json!({})).await;
        store.dead(2, json!({})).await;
        store.dead(3, json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event", "destination": null,
            "stream_id": crate::harness::stream(1), "perspective_name": "totals",
            "envelope": {"event_id": source(70), "perspective_name": "totals"},
        })).await;
        store.dead(4, json!({"source_row": {"message_type": "OrderPlaced", "tenant": "nobody"}})).await;

        recover_all(&*store, at(100)).await;

        let mut told = Vec::new();
        for n in 1..=3 {
            let decision = store.show(id(n)).await.unwrap().unwrap().decisions.remove(0);
            told.push((store.letter(id(n)).await.status_note, decision.note.unwrap()));
        }
        let present = "not re-emitted: wh_outbox has this row already";
        let gone = "not re-emitted: its event is no longer in wh_event_store";
        assert_eq!(told, [
            (None, "recovered".to_owned()),
            (Some(present.to_owned()), present.to_owned()),
            (Some(gone.to_owned()), gone.to_owned()),
        ]);
        let failed = store.letter(id(4)).await.status_note.unwrap();
        assert!(failed.starts_with("not re-emitted: ") && failed.contains("tenant"), "{failed}");
    }
}
