//! Hints that rows may be due.

use std::time::Duration;

use reprieve::store::{Import, OperatorChange, OperatorVerb, Signal, Sweep, Target};
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use crate::harness::rows::{import_line, moving};
use crate::harness::{Backend, at, dead_letter, id, outbox_row};

/// Ready comes well within this; it is long only for machines that are busy with other things.
const SOON: Duration = Duration::from_secs(10);

async fn assert_ready(signals: &mut Receiver<Signal>) {
    let signal = tokio::time::timeout(SOON, signals.recv()).await.expect("a signal in time");
    assert_eq!(signal, Some(Signal::Ready));
}

on_both_stores! {
    async fn an_import_by_another_connection_is_told(store: Backend) {
        let mut signals = store.signals().await.unwrap();
        let other = store.another().await;

        other.import(&Import { rows: &[import_line(1)], now: None }).await.unwrap();

        assert_ready(&mut signals).await;
    }

    async fn a_move_by_another_connection_is_told(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        let mut signals = store.signals().await.unwrap();
        let other = store.another().await;

        other.move_to_dead_letters(&moving(reprieve::model::SourceTable::Outbox, 1)).await.unwrap();

        assert_ready(&mut signals).await;
    }

    async fn a_row_that_an_application_inserts_is_told(store: Backend) {
        let mut signals = store.signals().await.unwrap();

        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert_ready(&mut signals).await;
    }

    async fn an_operators_retry_is_told(store: Backend) {
        store.dead(1, json!({"recovery_status": 2})).await;
        let other = store.another().await;
        let mut signals = store.signals().await.unwrap();
        let request = OperatorChange {
            verb: OperatorVerb::Retry, target: Target::Ids(vec![id(1)]), actor: "kim", note: None, now: Some(at(9)),
        };

        other.change(&request).await.unwrap();

        assert_ready(&mut signals).await;
    }

    async fn a_sweep_is_told(store: Backend) {
        store.dead(1, json!({"recovery_status": 2})).await;
        let other = store.another().await;
        let mut signals = store.signals().await.unwrap();

        other.sweep(&Sweep { generation: "g2", stagger: Duration::ZERO, now: None }).await.unwrap();

        assert_ready(&mut signals).await;
    }

    async fn every_subscriber_is_told(store: Backend) {
        let other = store.another().await;
        let mut one = store.signals().await.unwrap();
        let mut two = other.signals().await.unwrap();

        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert_ready(&mut one).await;
        assert_ready(&mut two).await;
    }
}
