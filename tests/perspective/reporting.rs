//! Reports of what became of claimed rows.

use reprieve::store::perspective::{EventFailure, backoff};
use serde_json::{Value, json};

use super::{arrives, arrives_as, attempts, claims, failure, row};
use crate::harness::{Backend, at, instance, source, time_text};

on_both_stores! {
    async fn a_completed_row_is_processed_and_leased_to_nobody(store: Backend) {
        arrives(&store, 1, 1).await;
        arrives(&store, 2, 1).await;
        claims(&*store, 1, 1, 0).await;

        let taken = store.complete_events(instance(1), &[source(1), source(9)], Some(at(5))).await.unwrap();

        assert_eq!(taken, [source(1)]);
        let row = row(&store, 1).await;
        assert_eq!((&row["processed_at"], &row["lease_expiry"]), (&json!(time_text(at(5))), &Value::Null));
        assert_eq!(row["attempts"], 1);
        assert_eq!(claims(&*store, 2, 1, 100).await.len(), 1, "the other is still to be done");
        assert!(store.complete_events(instance(1), &[source(1)], Some(at(6))).await.unwrap().is_empty(), "once");
    }

    async fn only_the_owner_reports(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;
        let before = row(&store, 1).await;

        assert!(store.complete_events(instance(2), &[source(1)], Some(at(5))).await.unwrap().is_empty());
        assert!(store.fail_events(instance(2), &[failure(1)], Some(at(5))).await.unwrap().is_empty());

        assert_eq!(row(&store, 1).await, before);
    }

    async fn a_lapsed_lease_that_nobody_took_is_still_reported_on(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;

        assert_eq!(store.complete_events(instance(1), &[source(1)], Some(at(500))).await.unwrap(), [source(1)]);
    }

    async fn a_failure_releases_the_row_and_makes_it_wait(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;

        let taken = store.fail_events(instance(1), &[failure(1), failure(9)], Some(at(5))).await.unwrap();

        assert_eq!(taken, [source(1)]);
        let row = row(&store, 1).await;
        assert_eq!((&row["error"], &row["failure_reason"]), (&json!("no such customer"), &json!(4)));
        assert_eq!((&row["instance_id"], &row["lease_expiry"]), (&Value::Null, &Value::Null));
        assert_eq!(row["scheduled_for"], json!(time_text(at(6))));
        assert_eq!((&row["attempts"], &row["processed_at"]), (&json!(1), &Value::Null));
    }

    async fn the_wait_doubles_up_to_five_minutes(store: Backend) {
        for (n, spent) in [(1, 0), (2, 1), (3, 8), (4, 9), (5, 2_000_000_000)] {
            arrives_as(&store, n, n, json!({"attempts": spent, "instance_id": instance(1)})).await;
        }
        let failures: Vec<EventFailure> = (1..=5).map(failure).collect();
        store.fail_events(instance(1), &failures, Some(at(0))).await.unwrap();

        for (n, seconds) in [(1, 1), (2, 1), (3, 128), (4, 256), (5, 300)] {
            assert_eq!(row(&store, n).await["scheduled_for"], json!(time_text(at(seconds))), "row {n}");
            let spent = i32::try_from(attempts(&store, n).await).unwrap();
            assert_eq!(backoff(spent).as_secs(), u64::try_from(seconds).unwrap(), "what the library says of row {n}");
        }
    }

    async fn odd_error_texts_are_kept_with_a_mark(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;
        let long = EventFailure { error: format!("a\0b{}", "é".repeat(70_000)), ..failure(1) };

        assert_eq!(store.fail_events(instance(1), &[long], Some(at(5))).await.unwrap(), [source(1)]);

        let error = row(&store, 1).await["error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("a\u{2400}b") && error.ends_with("[cut at 64 KiB]"), "{}", error.len());
    }
}
