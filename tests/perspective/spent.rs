//! Rows that have spent their attempts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reprieve::perspective::{Drained, Drainer, Gate};
use serde_json::json;

use super::moving_leased::refuse_dead_letter;
use super::program::{Orders, Told, drainer, has_line};
use super::{arrives, arrives_as, attempts, pending, row};
use crate::harness::rows::with;
use crate::harness::{Backend, at, source};

/// Longer than any backoff.
const ROUND: i64 = 400;

on_both_stores! {
    async fn with_a_cap_of_ten_there_are_ten_attempts_and_the_eleventh_claim_moves(store: Backend) {
        arrives(&store, 1, 1).await;
        arrives(&store, 2, 1).await;
        let orders = Orders::refusing(&[1]);
        for round in 0..10 {
            // Each round another process.
            let drained = drainer(&store, 100 + u64::try_from(round).unwrap(), &orders).drains_at(at(round * ROUND)).await;
            assert_eq!((drained.moved, drained.failed, drained.applied), (0, 1, 0), "round {round}");
            assert_eq!(attempts(&store, 1).await, round + 1);
        }
        assert_eq!(orders.tried.load(Ordering::Relaxed), 10);

        let drained = drainer(&store, 200, &orders).drains_at(at(10 * ROUND)).await;

        assert_eq!((drained.moved, drained.failed, drained.applied), (1, 0, 1));
        assert_eq!((orders.tried.load(Ordering::Relaxed), orders.of("totals")), (11, vec![2]), "the rest goes on");
        assert_eq!(store.value("select attempts_when_dlq from wh_dead_letters").await, 11);
        assert_eq!(row(&store, 2).await["attempts"], 2, "it has not paid for the one before it");
    }

    async fn a_moved_row_is_never_parsed(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 10})).await;
        store.execute(r#"update wh_event_store set event_data = '"no order"'"#).await;
        let orders = Arc::<Orders>::default();

        let drained = drainer(&store, 1, &orders).drains_at(at(0)).await;

        assert_eq!(drained, Drained { claimed: 1, moved: 1, ..Drained::default() });
        assert_eq!(orders.parsed.load(Ordering::Relaxed), 0);
    }

    async fn of_three_perspectives_of_one_event_the_spent_one_is_moved(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 10})).await;
        for (n, perspective) in [(2, "invoices"), (3, "stock")] {
            let other = json!({"event_work_id": source(n), "perspective_name": perspective});
            store.insert("wh_perspective_events", &with(pending(1, 1), other)).await;
        }
        let orders = Arc::<Orders>::default();

        let drained = drainer(&store, 1, &orders).drains_at(at(0)).await;

        assert_eq!((drained.moved, drained.applied), (1, 2));
        assert_eq!((orders.of("totals"), orders.of("invoices"), orders.of("stock")), (vec![], vec![1], vec![1]));
    }

    async fn without_a_cap_a_row_is_tried_for_ever(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 5000})).await;
        let orders = Orders::refusing(&[1]);
        let drainer = drainer(&store, 1, &orders);
        let uncapped = Drainer { gate: Gate { max_attempts: None, ..drainer.gate.clone() }, ..drainer };

        let drained = uncapped.drains_at(at(0)).await;

        assert_eq!((drained.moved, drained.failed), (0, 1));
    }

    async fn a_move_that_fails_a_hundred_times_is_seen_costs_one_try_each_and_loses_nothing(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 10})).await;
        arrives(&store, 2, 2).await;
        store.execute(&refuse_dead_letter(&store, 1)).await;
        let orders = Orders::refusing(&[1]);
        let drainer = drainer(&store, 1, &orders);

        for round in 0..100 {
            let drained = drainer.drains_at(at(round * ROUND)).await;
            assert_eq!((drained.moved, drained.failed), (0, 1), "round {round}: it stays in the apply set");
        }

        assert_eq!(attempts(&store, 1).await, 110);
        assert!(row(&store, 1).await["error"].as_str().unwrap().contains("no customer"));
        let counted = r#"reprieve_failed_moves_total{source_table="wh_perspective_events"} 100"#;
        assert!(has_line(&drainer.gate.metrics, counted));
        assert_eq!(orders.tried.load(Ordering::Relaxed), 101, "one try a round, and the other row");
        orders.is_fixed();
        drainer.drains_at(at(100 * ROUND)).await;
        assert_eq!(orders.of("totals"), [2, 1]);
    }
}
