//! Carrying out the decisions about a batch.

use reprieve::model::decision::Standing;
use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::store::Begun;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::batches::ended;
use crate::harness::{Backend, at, begin, claim, dead_letter, ending, id, stream, time_text};

async fn batches(store: &Backend) -> Vec<serde_json::Map<String, Value>> {
    store.query("select * from wh_recovery_batches").await
}

on_both_stores! {
    async fn the_batch_keeps_the_rows_to_recover_and_lets_the_others_go(store: Backend) {
        for n in 1..=4 {
            let of_stream = if n < 4 { json!({"stream_id": stream(n)}) } else { json!({}) };
            store.dead(n, of_stream).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        let entries = claimed.entries();
        let waits = Standing {
            status: RecoveryStatus::Pending,
            next_recovery_at: Some(at(900)),
            deferral: Some(Deferral::Cooldown),
        };
        let endings = [
            ending(&entries[1], ended(RecoveryStatus::HoldForReview), Some("budget spent")),
            ending(&entries[2], waits, None),
        ];

        let begun = begin(&*store, claimed.batch_id, &[id(1)], &endings, at(101)).await;

        let Begun::Done { mut ended } = begun else { panic!("{begun:?}") };
        ended.sort();
        assert_eq!(ended, [id(2), id(3)]);
        let kept = batches(&store).await;
        assert_eq!((&kept[0]["phase"], &kept[0]["ids"]), (&json!("recovering"), &json!([id(1)])));
        let held = store.letter(id(2)).await;
        assert_eq!(held.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!((held.status_note.as_deref(), held.next_recovery_at), (Some("budget spent"), None));
        let cooling = store.letter(id(3)).await;
        assert_eq!(cooling.recovery_status, RecoveryStatus::Pending);
        assert_eq!((cooling.next_recovery_at, cooling.deferral), (Some(at(900)), Some(Deferral::Cooldown)));
        assert_eq!(cooling.recovery_attempts, 0);
        let claimed_next = claim(&*store, 10, at(102)).await.ids();
        assert_eq!(claimed_next, [id(4)], "a row in neither list is let go untouched");
    }

    async fn a_batch_with_nothing_to_recover_is_dissolved(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        let endings = [ending(&claimed.entries()[0], ended(RecoveryStatus::PermanentlyFailed), None)];

        assert_eq!(begin(&*store, claimed.batch_id, &[], &endings, at(101)).await, Begun::Done { ended: vec![id(1)] });

        assert!(batches(&store).await.is_empty());
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::PermanentlyFailed);
    }

    async fn a_decision_is_recorded_with_its_change(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        let entries = claimed.entries();
        let mut silent = ending(&entries[1], ended(RecoveryStatus::HoldForReview), None);
        silent.record = None;
        let told = ending(&entries[0], ended(RecoveryStatus::HoldForReview), Some("its attempts are spent"));

        begin(&*store, claimed.batch_id, &[], &[told, silent], at(101)).await;

        let decisions = store.show(id(1)).await.unwrap().unwrap().decisions;
        assert_eq!(decisions.len(), 1);
        let decision = &decisions[0];
        assert_eq!((decision.decision.as_str(), decision.decided_at), ("hold", at(101)));
        assert_eq!(decision.policy_name.as_deref(), Some("Careful"));
        assert_eq!(decision.policy_digest.as_deref(), Some("ab".repeat(32).as_str()));
        assert_eq!((decision.attempt, decision.note.as_deref()), (Some(1), Some("its attempts are spent")));
        let json = |text: &Option<String>| serde_json::from_str::<Value>(text.as_deref().unwrap()).unwrap();
        assert_eq!(json(&decision.rule), json!({"max_recovery_attempts": 3}));
        assert_eq!(json(&decision.inputs), json!({"failure_reason": "Throttled"}));
        assert!(store.show(id(2)).await.unwrap().unwrap().decisions.is_empty());
    }

    async fn a_row_that_changed_since_the_claim_is_left_to_the_next_scan(store: Backend) {
        for n in 1..=5 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        let endings: Vec<_> =
            claimed.entries().iter().map(|entry| ending(entry, ended(RecoveryStatus::HoldForReview), None)).collect();
        store.schedule_next_dead_letter_attempt(id(1), at(500)).await.unwrap();
        let credit = format!("update wh_dead_letters set replay_credit = '*' where dead_letter_id = '{}'", id(2));
        store.execute(&credit).await;
        store.mark_dead_letter_permanently_failed(id(3)).await.unwrap();
        let held = format!("update wh_dead_letters set operator_disposition = 2 where dead_letter_id = '{}'", id(5));
        store.execute(&held).await;

        let begun = begin(&*store, claimed.batch_id, &[], &endings, at(101)).await;

        assert_eq!(begun, Begun::Done { ended: vec![id(4)] });
        assert_eq!(store.letter(id(1)).await.next_recovery_at, Some(at(500)));
        assert_eq!(store.letter(id(2)).await.recovery_status, RecoveryStatus::Pending);
        assert_eq!(store.letter(id(3)).await.recovery_status, RecoveryStatus::PermanentlyFailed);
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 1, "what was not done is not recorded");
    }

    async fn policy_errors_are_counted_and_cleared(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let failing = json!({"policy_errors": 3, "policy_error_digest": "old"});
        store.dead(2, failing).await;
        let claimed = claim(&*store, 10, at(100)).await;
        let entries = claimed.entries();
        let waits = Standing {
            status: RecoveryStatus::Pending,
            next_recovery_at: Some(at(160)),
            deferral: Some(Deferral::PolicyError),
        };
        let mut failed = ending(&entries[0], waits, Some("the policy trapped"));
        (failed.policy_errors, failed.policy_error_digest) = (1, Some("new".to_owned()));
        let answered = ending(&entries[1], ended(RecoveryStatus::HoldForReview), None);

        begin(&*store, claimed.batch_id, &[], &[failed, answered], at(101)).await;

        let failed = store.letter(id(1)).await;
        assert_eq!((failed.policy_errors, failed.policy_error_digest.as_deref()), (1, Some("new")));
        assert_eq!(failed.deferral, Some(Deferral::PolicyError));
        let answered = store.letter(id(2)).await;
        assert_eq!((answered.policy_errors, answered.policy_error_digest), (0, None));
    }

    async fn a_lost_batch_does_nothing(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(7))})).await;
        let claimed = claim(&*store, 10, at(100)).await;
        store.rescue(5, Some(at(200))).await.unwrap();
        let before = store.raw_letter(id(1)).await;
        let endings = [ending(&claimed.entries()[0], ended(RecoveryStatus::HoldForReview), None)];

        assert_eq!(begin(&*store, claimed.batch_id, &[], &endings, at(201)).await, Begun::Lost);
        assert_eq!(begin(&*store, Uuid::now_v7(), &[id(1)], &[], at(201)).await, Begun::Lost);

        assert_eq!(store.raw_letter(id(1)).await, before);
        assert!(batches(&store).await.is_empty());
    }

    async fn the_streams_of_rows_that_are_let_go_are_free(store: Backend) {
        for n in 1..=4 {
            store.dead(n, json!({"stream_id": stream(n)})).await;
        }
        store.dead(5, json!({"stream_id": stream(1)})).await;
        let claimed = claim(&*store, 4, at(100)).await;
        let entries = claimed.entries();
        let endings = [ending(&entries[1], ended(RecoveryStatus::HoldForReview), None)];

        begin(&*store, claimed.batch_id, &[id(1), id(4)], &endings, at(101)).await;

        store.dead(6, json!({"stream_id": stream(2)})).await;
        let next = claim(&*store, 10, at(102)).await.ids();
        assert_eq!(next, [id(3), id(6)], "the streams of 1 and 4 are taken still");
    }
}
