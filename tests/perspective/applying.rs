//! What a drainer applies, in which order, and what it reports.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reprieve::perspective::{Drained, Drainer, DrainerOptions};
use reprieve::store::StoreError;
use serde_json::{Value, json};

use super::program::{Orders, Told, allow_completion, drainer, refuse_completion};
use super::{arrives, arrives_as, attempts, pending, row};
use crate::harness::rows::with;
use crate::harness::{Backend, at, instance, source, stream, time_text};

on_both_stores! {
    async fn events_are_applied_in_order_and_done(store: Backend) {
        for (n, on) in [(3, 1), (1, 1), (4, 2), (2, 1)] {
            arrives(&store, n, on).await;
        }
        let orders = Arc::<Orders>::default();

        let drained = drainer(&store, 1, &orders).drains_at(at(0)).await;

        assert_eq!(drained, Drained { claimed: 4, applied: 4, ..Drained::default() });
        assert_eq!(orders.of("totals"), [1, 2, 3, 4]);
        assert_eq!(row(&store, 1).await["processed_at"], json!(time_text(at(0))));
        assert_eq!(drainer(&store, 1, &orders).drains_at(at(1)).await, Drained::default());
    }

    async fn a_failed_event_stops_its_stream_and_perspective_alone(store: Backend) {
        for n in 1..=3 {
            arrives(&store, n, 1).await;
        }
        arrives(&store, 4, 2).await;
        let other = json!({"event_work_id": source(13), "perspective_name": "invoices"});
        store.insert("wh_perspective_events", &with(pending(3, 1), other)).await;
        let orders = Orders::refusing(&[2]);
        let drainer = drainer(&store, 1, &orders);

        let drained = drainer.drains_at(at(0)).await;

        assert_eq!((orders.of("totals"), orders.of("invoices")), (vec![1, 4], vec![3]));
        assert_eq!((drained.applied, drained.failed, drained.waiting), (3, 1, 1));
        let failed = row(&store, 2).await;
        assert_eq!((&failed["error"], &failed["instance_id"]), (&json!("Unknown: order 2 has no customer"), &Value::Null));
        assert_eq!(row(&store, 3).await["error"], Value::Null, "the one behind it has not failed");
        orders.is_fixed();
        assert_eq!(drainer.drains_at(at(0)).await, Drained::default(), "nothing overtakes the one that waits");
        drainer.drains_at(at(10)).await;
        assert_eq!(orders.of("totals"), [1, 4, 2, 3]);
        assert_eq!(attempts(&store, 3).await, 1);
    }

    async fn an_event_that_cannot_be_parsed_fails_as_such(store: Backend) {
        arrives(&store, 1, 1).await;
        arrives(&store, 2, 1).await;
        store.execute(r#"update wh_event_store set event_data = '"no order"' where commit_sequence = 1"#).await;
        let orders = Arc::<Orders>::default();

        drainer(&store, 1, &orders).drains_at(at(0)).await;

        assert_eq!(row(&store, 1).await["failure_reason"], 3);
        assert_eq!((orders.of("totals"), orders.tried.load(Ordering::Relaxed)), (vec![], 0));
    }

    async fn an_event_that_is_gone_fails_and_stops_none(store: Backend) {
        store.insert("wh_perspective_events", &pending(1, 1)).await;
        arrives(&store, 2, 1).await;
        let orders = Arc::<Orders>::default();

        let drained = drainer(&store, 1, &orders).drains_at(at(0)).await;

        assert_eq!((drained.applied, drained.failed), (1, 1));
        let failed = row(&store, 1).await;
        assert_eq!(failed["failure_reason"], 7);
        assert!(failed["error"].as_str().unwrap().contains("no longer in wh_event_store"));
    }

    async fn what_was_applied_before_its_report_was_lost_is_not_applied_again(store: Backend) {
        arrives(&store, 1, 1).await;
        store.execute(refuse_completion(&store)).await;
        let orders = Arc::<Orders>::default();
        let drainer = Drainer { now: Some(at(0)), ..drainer(&store, 1, &orders) };
        assert!(matches!(drainer.until_idle().await, Err(StoreError::Database { .. })));
        store.execute(allow_completion(&store)).await;

        let drained = drainer.drains_at(at(1)).await;

        assert_eq!((drained.recent, drained.applied), (1, 0));
        assert_eq!(orders.of("totals"), [1]);
        assert_eq!(attempts(&store, 1).await, 1);
    }

    async fn another_instance_applies_again_what_was_not_reported(store: Backend) {
        arrives(&store, 1, 1).await;
        store.execute(refuse_completion(&store)).await;
        let orders = Arc::<Orders>::default();
        let first = Drainer { now: Some(at(0)), ..drainer(&store, 1, &orders) };
        assert!(first.until_idle().await.is_err());
        store.execute(allow_completion(&store)).await;

        drainer(&store, 2, &orders).drains_at(at(60)).await;

        assert_eq!(orders.of("totals"), [1, 1], "at least once");
    }

    async fn a_step_whose_lease_has_ended_applies_nothing_more(store: Backend) {
        arrives(&store, 1, 1).await;
        let orders = Arc::<Orders>::default();
        let options = DrainerOptions { lease: Duration::from_nanos(1), ..DrainerOptions::default() };
        // Leases of the database are counted in microseconds: this one is not even taken.
        let drained = Drainer { options, ..drainer(&store, 1, &orders) }.drain(&[stream(1)]).await.unwrap();

        assert_eq!((drained.applied, orders.of("totals").len()), (0, 0));
    }

    async fn what_a_dead_instance_held_is_adopted(store: Backend) {
        arrives_as(&store, 1, 1, json!({
            "instance_id": instance(9), "lease_expiry": time_text(at(0)), "attempts": 1,
        })).await;
        arrives(&store, 2, 1).await;
        let orders = Arc::<Orders>::default();

        let drainer = Drainer { now: Some(at(0)), ..drainer(&store, 1, &orders) };
        let drained = drainer.adopt_orphans(10).await.unwrap();

        assert_eq!(drained.applied, 2, "with the rest of its stream");
        assert_eq!((orders.of("totals"), attempts(&store, 1).await), (vec![1, 2], 2));
        assert_eq!(drainer.adopt_orphans(10).await.unwrap(), Drained::default());
    }
}
