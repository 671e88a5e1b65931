//! Claims that keep the order within stream and perspective.

use serde_json::json;

use super::{arrives, arrives_as, attempts, attempts_of, claims_in_order, failure, pending};
use crate::harness::rows::with;
use crate::harness::{Backend, at, instance, source, stream, time_text};

/// Claims in order and gives the numbers of the rows.
async fn claimed(store: &Backend, who: u64, seconds: i64, among: u64) -> Vec<u64> {
    let rows = claims_in_order(&**store, who, 1, seconds).await;
    let number = |id| (1..=among).find(|n| source(*n) == id).unwrap();
    rows.iter().map(|row| number(row.event_work_id)).collect()
}

on_both_stores! {
    async fn nothing_is_claimed_behind_a_row_that_waits(store: Backend) {
        arrives(&store, 1, 1).await;
        arrives_as(&store, 2, 1, json!({"scheduled_for": time_text(at(10))})).await;
        arrives(&store, 3, 1).await;

        assert_eq!(claimed(&store, 1, 0, 3).await, [1]);
        assert_eq!(attempts(&store, 3).await, 0, "what is not claimed is not counted");
        assert_eq!(claimed(&store, 1, 10, 3).await, [1, 2, 3]);
    }

    async fn other_perspectives_of_the_stream_go_on(store: Backend) {
        arrives_as(&store, 1, 1, json!({"scheduled_for": time_text(at(10))})).await;
        for (n, perspective) in [(2, "totals"), (3, "invoices")] {
            arrives_as(&store, n, 1, json!({"perspective_name": perspective})).await;
        }

        assert_eq!(claimed(&store, 1, 0, 3).await, [3]);
    }

    async fn a_row_that_failed_comes_alone(store: Backend) {
        for n in 1..=3 {
            arrives(&store, n, 1).await;
        }
        assert_eq!(claimed(&store, 1, 0, 3).await, [1, 2, 3]);
        store.complete_events(instance(1), &[source(1)], Some(at(1))).await.unwrap();
        store.fail_events(instance(1), &[failure(2)], Some(at(1))).await.unwrap();
        assert_eq!(claimed(&store, 1, 1, 3).await, [0; 0], "it waits for its backoff");

        assert_eq!(claimed(&store, 2, 100, 3).await, [2]);
        assert_eq!(attempts(&store, 3).await, 1, "the one behind it spends no attempt on its account");

        store.complete_events(instance(2), &[source(2)], Some(at(101))).await.unwrap();
        assert_eq!(claimed(&store, 2, 101, 3).await, [3]);
    }

    async fn a_row_that_is_claimed_in_vain_again_and_again_comes_with_ever_fewer_others_and_in_the_end_alone(store: Backend) {
        for n in 1..=300 {
            arrives(&store, n, 1).await;
        }
        let mut companies = Vec::new();
        for claim in 0..10 {
            companies.push(claimed(&store, u64::from(claim % 2 == 0) + 1, claim * 60, 300).await);
        }
        let sizes: Vec<usize> = companies.iter().map(Vec::len).collect();
        assert_eq!(sizes, [300, 300, 300, 256, 64, 16, 4, 1, 1, 1]);
        assert!(companies.iter().all(|company| company.iter().copied().eq(1..=company.len() as u64)), "in order");
        assert_eq!((attempts(&store, 1).await, attempts(&store, 2).await), (10, 7));
    }

    async fn rows_that_were_all_claimed_in_vain_are_not_drained_one_by_one(store: Backend) {
        for n in 1..=300 {
            arrives_as(&store, n, 1, json!({"attempts": 3})).await;
        }
        let first = claimed(&store, 1, 0, 300).await;
        assert_eq!(first.len(), 256);
        let done: Vec<_> = first.into_iter().map(source).collect();
        store.complete_events(instance(1), &done, Some(at(1))).await.unwrap();
        assert_eq!(claimed(&store, 1, 1, 300).await.len(), 44);
    }

    async fn an_event_that_is_gone_stops_none(store: Backend) {
        store.insert("wh_perspective_events", &with(pending(1, 1), json!({"scheduled_for": time_text(at(10))}))).await;
        arrives(&store, 2, 1).await;

        assert_eq!(claimed(&store, 1, 0, 2).await, [2]);
        assert_eq!(claimed(&store, 1, 10, 2).await, [2, 1], "it has no place, so it comes last");
    }

    async fn streams_that_only_wait_are_not_pending(store: Backend) {
        let waits = json!({"scheduled_for": time_text(at(10))});
        let held = json!({"instance_id": instance(2), "lease_expiry": time_text(at(10)), "attempts": 1});
        arrives_as(&store, 1, 1, waits).await;
        arrives(&store, 2, 1).await;
        arrives_as(&store, 3, 2, held).await;
        arrives(&store, 4, 2).await;
        arrives(&store, 5, 3).await;
        arrives_as(&store, 6, 4, json!({"processed_at": time_text(at(-1))})).await;

        assert_eq!(store.pending_streams(instance(1), 10, Some(at(0))).await.unwrap(), [stream(3)]);
        assert_eq!(store.pending_streams(instance(2), 10, Some(at(0))).await.unwrap().len(), 2, "what it holds, too");
        assert_eq!(store.pending_streams(instance(1), 10, Some(at(10))).await.unwrap().len(), 3);
        assert_eq!(store.pending_streams(instance(1), 2, Some(at(10))).await.unwrap().len(), 2);
        assert_eq!(attempts_of(&claims_in_order(&*store, 1, 3, 0).await), [(source(5), 1)]);
    }
}
