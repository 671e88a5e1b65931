//! When there is something to do.

use jiff::Timestamp;
use serde_json::json;

use crate::harness::{Backend, at, begin, claim, stream, time_text};

async fn probe(store: &Backend, now: i64) -> (bool, Option<Timestamp>) {
    let due = store.due("g1", Some(at(now))).await.unwrap();
    assert_eq!(due.now, at(now));
    (due.due_now, due.next_at)
}

on_both_stores! {
    async fn an_empty_table_has_nothing_to_do(store: Backend) {
        assert_eq!(probe(&store, 100).await, (false, None));
    }

    async fn a_fresh_row_is_due_now(store: Backend) {
        store.dead(1, json!({})).await;

        assert!(probe(&store, 100).await.0);
    }

    async fn the_earliest_time_ahead_is_exact(store: Backend) {
        store.dead(1, json!({"next_recovery_at": "2026-01-01T00:10:00.123456Z"})).await;
        store.dead(2, json!({"next_recovery_at": time_text(at(700))})).await;

        let (due_now, next_at) = probe(&store, 100).await;

        assert!(!due_now);
        assert_eq!(next_at, Some("2026-01-01T00:10:00.123456Z".parse().unwrap()));
        let now = "2026-01-01T00:10:00.123456Z".parse().unwrap();
        assert!(store.due("g1", Some(now)).await.unwrap().due_now);
    }

    async fn rows_that_wait_for_people_do_not_count(store: Backend) {
        store.dead(1, json!({"recovery_status": 2})).await;
        store.dead(2, json!({"recovery_status": 4})).await;
        store.dead(3, json!({"recovery_status": 3, "recovered_at": time_text(at(5))})).await;
        store.dead(4, json!({"operator_disposition": 2})).await;
        store.dead(5, json!({"operator_disposition": 3, "next_recovery_at": time_text(at(500))})).await;

        assert_eq!(probe(&store, 100).await, (false, None));
    }

    async fn the_end_of_a_lease_is_something_to_do(store: Backend) {
        store.dead(1, json!({})).await;
        let claimed = claim(&*store, 10, at(100)).await;

        assert_eq!(probe(&store, 101).await, (false, Some(at(160))));
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;
        assert_eq!(probe(&store, 102).await, (false, Some(at(160))));
        store.dead(2, json!({"next_recovery_at": time_text(at(130))})).await;
        assert_eq!(probe(&store, 103).await, (false, Some(at(130))));
    }

    async fn a_row_behind_a_claimed_one_of_its_stream_is_not_due_now(store: Backend) {
        store.dead(1, json!({"stream_id": stream(1)})).await;
        store.dead(2, json!({"stream_id": stream(1)})).await;
        claim(&*store, 1, at(100)).await;

        assert_eq!(probe(&store, 101).await, (false, Some(at(160))));
    }

    async fn a_row_without_a_due_time_is_due_now_even_if_it_died_in_the_future(store: Backend) {
        store.dead(1, json!({"dead_lettered_at": time_text(at(600))})).await;

        assert_eq!(probe(&store, 100).await, (true, None), "it does not fall due once more when it has died");
        claim(&*store, 10, at(100)).await;
        assert_eq!(probe(&store, 101).await, (false, Some(at(160))));
    }

    async fn a_cooling_row_that_died_in_the_future_is_not_due_now(store: Backend) {
        store.dead(1, json!({"dead_lettered_at": time_text(at(600)), "next_recovery_at": time_text(at(700))})).await;

        assert_eq!(probe(&store, 100).await, (false, Some(at(700))));
    }
}
