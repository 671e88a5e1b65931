//! The numbers of the whole table.

use reprieve::model::{FailureReason, RecoveryStatus, SourceTable};
use serde_json::json;

use crate::harness::rows::with;
use crate::harness::{Backend, at, claim, dead_letter, time_text};

on_both_stores! {
    async fn an_empty_table_has_every_status_at_nothing(store: Backend) {
        let stats = store.stats(Some(at(100))).await.unwrap();

        assert_eq!(stats.by_status.len(), RecoveryStatus::ALL.len());
        assert!(stats.by_status.values().all(|count| *count == 0));
        assert!(stats.by_reason.is_empty() && stats.by_source_table.values().all(|count| *count == 0));
        assert!(stats.by_fingerprint.is_empty());
        assert_eq!(stats.oldest_due, None);
    }

    async fn rows_are_counted_by_what_they_are(store: Backend) {
        let print = |digit: &str| json!({"error_fingerprint": digit.repeat(16), "error_fingerprint_version": 1});
        store.dead(1, print("a")).await;
        store.insert("wh_dead_letters", &with(with(dead_letter(2), print("b")), json!({"failure_reason": 4711}))).await;
        store.insert("wh_dead_letters", &with(with(dead_letter(3), print("b")), json!({"recovery_status": 2}))).await;
        store.dead(4, json!({"recovery_status": 4, "source_table": "wh_inbox"})).await;
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(5, recovered).await;
        claim(&*store, 1, jiff::Timestamp::now()).await;

        let stats = store.stats(None).await.unwrap();

        for status in RecoveryStatus::ALL {
            assert_eq!(stats.by_status[status], 1, "{status}: one is pending, one in a batch, and so on");
        }
        assert_eq!((stats.by_reason[&FailureReason(8)], stats.by_reason[&FailureReason(4711)]), (4, 1));
        assert_eq!((stats.by_source_table[&SourceTable::Outbox], stats.by_source_table[&SourceTable::Inbox]), (4, 1));
        assert_eq!(stats.by_fingerprint, [("b".repeat(16), 2), ("a".repeat(16), 1)]);
    }

    async fn the_oldest_due_row_is_the_one_that_fell_due_first(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(60))})).await;
        store.dead(30, json!({})).await;
        store.dead(2, json!({"recovery_status": 2})).await;

        assert_eq!(store.stats(Some(at(100))).await.unwrap().oldest_due, Some(at(30)));
    }

    async fn nothing_due_has_no_oldest(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(60))})).await;

        assert_eq!(store.stats(Some(at(59))).await.unwrap().oldest_due, None);
        assert_eq!(store.stats(Some(at(60))).await.unwrap().oldest_due, Some(at(60)));
    }

    async fn a_store_answers(store: Backend) {
        store.ping().await.unwrap();
    }
}
