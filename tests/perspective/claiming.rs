//! Claiming rows of streams, and counting it.

use std::time::Duration;

use reprieve::store::perspective::EventClaim;
use serde_json::{Value, json};

use super::{arrives, arrives_as, attempts, attempts_of, claim_of, claims, failure, pending, row};
use crate::harness::rows::event;
use crate::harness::{Backend, at, instance, source, stream, time_text};

on_both_stores! {
    async fn the_first_claim_counts_one(store: Backend) {
        arrives(&store, 1, 1).await;

        let claimed = claims(&*store, 1, 1, 0).await;

        assert_eq!(attempts_of(&claimed), [(source(1), 1)]);
        assert!(claimed[0].taken_over);
        assert_eq!(claimed[0].claimed_at, Some(at(0)));
        let row = row(&store, 1).await;
        assert_eq!(row["instance_id"], json!(instance(1)));
        assert_eq!(row["lease_expiry"], json!(time_text(at(60))));
        assert_eq!(row["claimed_at"], json!(time_text(at(0))));
    }

    async fn a_claim_brings_the_event(store: Backend) {
        arrives(&store, 7, 1).await;

        let claimed = claims(&*store, 1, 1, 0).await.remove(0);

        assert_eq!((claimed.stream_id, claimed.event_id), (stream(1), event(7)));
        assert_eq!(claimed.perspective_name, "totals");
        let stored = claimed.event.unwrap();
        assert_eq!((stored.event_type.as_str(), stored.commit_sequence), ("OrderPlaced", Some(7)));
        assert_eq!(serde_json::from_str::<Value>(&stored.event_data).unwrap(), json!({"order": 7}));
        assert_eq!(serde_json::from_str::<Value>(&stored.metadata).unwrap(), json!({"tenant": "acme"}));
    }

    async fn a_live_lease_of_another_is_not_touched(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;
        let before = row(&store, 1).await;

        assert_eq!(claims(&*store, 2, 1, 59).await, []);

        assert_eq!(row(&store, 1).await, before);
    }

    async fn a_lapsed_lease_of_another_is_taken_over_and_counts(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;

        let taken = claims(&*store, 2, 1, 60).await;

        assert_eq!(attempts_of(&taken), [(source(1), 2)]);
        assert!(taken[0].taken_over);
        assert_eq!(row(&store, 1).await["instance_id"], json!(instance(2)));
    }

    async fn an_own_lease_is_prolonged_and_counts_nothing_lapsed_or_not(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;

        for seconds in [30, 500] {
            let again = claims(&*store, 1, 1, seconds).await;
            assert_eq!(attempts_of(&again), [(source(1), 1)], "after {seconds} s");
            assert!(!again[0].taken_over);
            assert_eq!(again[0].claimed_at, Some(at(0)));
            assert_eq!(row(&store, 1).await["lease_expiry"], json!(time_text(at(seconds + 60))));
        }
    }

    async fn a_claim_after_a_failure_counts_whoever_makes_it(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;
        store.fail_events(instance(1), &[failure(1)], Some(at(1))).await.unwrap();
        assert_eq!(attempts(&store, 1).await, 1);

        assert_eq!(attempts_of(&claims(&*store, 1, 1, 2).await), [(source(1), 2)]);
    }

    async fn a_stream_on_which_another_holds_something_is_left_alone(store: Backend) {
        let held = json!({"instance_id": instance(2), "lease_expiry": time_text(at(50)), "attempts": 1});
        arrives(&store, 1, 1).await;
        arrives_as(&store, 2, 1, held).await;
        arrives(&store, 3, 2).await;

        let claimed = store.claim_events(&claim_of(1, &[stream(1), stream(2)], at(0))).await.unwrap();

        assert_eq!(attempts_of(&claimed), [(source(3), 1)], "the other stream is free");
        assert_eq!(attempts(&store, 1).await, 0);
        assert_eq!(claims(&*store, 1, 1, 50).await.len(), 2, "once the lease has lapsed, so is this one");
    }

    async fn a_processed_row_holds_nothing_and_is_not_claimed(store: Backend) {
        let done = json!({
            "instance_id": instance(2), "lease_expiry": time_text(at(50)), "processed_at": time_text(at(-1)),
        });
        arrives_as(&store, 1, 1, done).await;
        arrives(&store, 2, 1).await;

        assert_eq!(attempts_of(&claims(&*store, 1, 1, 0).await), [(source(2), 1)]);
    }

    async fn a_row_that_is_scheduled_is_due_at_its_time(store: Backend) {
        arrives_as(&store, 1, 1, json!({"scheduled_for": time_text(at(10))})).await;

        assert_eq!(claims(&*store, 1, 1, 9).await, []);
        assert_eq!(attempts(&store, 1).await, 0);
        assert_eq!(claims(&*store, 1, 1, 10).await.len(), 1);
    }

    async fn rows_come_in_the_order_of_their_streams(store: Backend) {
        for (n, on) in [(4, 2), (3, 1), (2, 2), (1, 1)] {
            arrives(&store, n, on).await;
        }
        // Of the same place as the first, and of none.
        arrives(&store, 5, 1).await;
        arrives(&store, 6, 1).await;
        store.execute(&format!("update wh_event_store set commit_sequence = 1 where event_id = '{}'", event(5))).await;
        store.execute(&format!("update wh_event_store set commit_sequence = null where event_id = '{}'", event(6))).await;

        let claimed = store.claim_events(&claim_of(1, &[stream(2), stream(1)], at(0))).await.unwrap();

        let order: Vec<_> = claimed.iter().map(|row| row.event_work_id).collect();
        assert_eq!(order, [1, 5, 3, 6, 2, 4].map(source));
    }

    async fn what_the_caller_holds_already_comes_along(store: Backend) {
        arrives(&store, 1, 1).await;
        claims(&*store, 1, 1, 0).await;
        arrives(&store, 2, 1).await;

        assert_eq!(attempts_of(&claims(&*store, 1, 1, 1).await), [(source(1), 1), (source(2), 1)]);
    }

    async fn a_row_whose_event_is_gone_comes_without_it(store: Backend) {
        store.insert("wh_perspective_events", &pending(1, 1)).await;

        let claimed = claims(&*store, 1, 1, 0).await;

        assert_eq!(attempts_of(&claimed), [(source(1), 1)]);
        assert_eq!(claimed[0].event, None);
    }

    async fn one_perspective_of_a_stream_can_be_claimed_alone(store: Backend) {
        arrives(&store, 1, 1).await;
        let other = json!({"event_work_id": source(2), "perspective_name": "invoices"});
        store.insert("wh_perspective_events", &crate::harness::rows::with(pending(1, 1), other)).await;
        let streams = [stream(1)];
        let totals = EventClaim { perspective: Some("totals"), ..claim_of(1, &streams, at(0)) };
        let invoices = EventClaim { perspective: Some("invoices"), ..claim_of(2, &streams, at(1)) };

        assert_eq!(attempts_of(&store.claim_events(&totals).await.unwrap()), [(source(1), 1)]);
        assert_eq!(attempts(&store, 2).await, 0);
        assert_eq!(attempts_of(&store.claim_events(&invoices).await.unwrap()), [(source(2), 1)]);
        let again = EventClaim { now: Some(at(2)), ..totals.clone() };
        assert_eq!(attempts_of(&store.claim_events(&again).await.unwrap()), [(source(1), 1)]);
        let taken = EventClaim { instance_id: instance(3), now: Some(at(62)), ..totals };
        assert_eq!(attempts_of(&store.claim_events(&taken).await.unwrap()), [(source(1), 2)]);
        assert_eq!(claims(&*store, 4, 1, 1).await, [], "the whole stream is not free");
    }

    async fn without_streams_nothing_is_claimed(store: Backend) {
        arrives(&store, 1, 1).await;

        assert_eq!(store.claim_events(&claim_of(1, &[], at(0))).await.unwrap(), []);
        assert_eq!(claims(&*store, 1, 9, 0).await, []);
    }

    async fn the_clock_is_the_databases_unless_it_is_given(store: Backend) {
        arrives(&store, 1, 1).await;
        let streams = [stream(1)];
        let claim = EventClaim { now: None, lease: Duration::from_secs(3600), ..claim_of(1, &streams, at(0)) };

        let claimed_at = store.claim_events(&claim).await.unwrap()[0].claimed_at.unwrap();

        let age = jiff::Timestamp::now().duration_since(claimed_at);
        assert!(age.abs() < jiff::SignedDuration::from_mins(2), "{claimed_at}");
    }
}
