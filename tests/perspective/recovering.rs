//! Rows that died and come back.

use std::sync::Arc;

use reprieve::model::{RecoveryStatus, SourceTable};
use reprieve::perspective::Drainer;
use serde_json::json;

use super::program::{Orders, Told, allow_completion, drainer, refuse_completion};
use super::{arrives, arrives_as, attempts, pending};
use crate::harness::rows::{event, moving, with};
use crate::harness::{Backend, at, id, source};
use crate::recovery::host::{Told as _, host};

on_both_stores! {
    async fn a_recovered_row_is_applied_once(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 10})).await;
        arrives(&store, 2, 1).await;
        let orders = Orders::refusing(&[1]);
        let drainer = drainer(&store, 1, &orders);
        drainer.drains_at(at(0)).await;
        assert_eq!(orders.of("totals"), [2], "what came after it went on");
        orders.is_fixed();

        let mut host = host(&store).await;
        host.deploys("g2", at(10)).await;
        let counts = host.scans_at(at(10)).await;

        assert_eq!(counts.recovered, 1);
        assert_eq!(attempts(&store, 1).await, 0);
        drainer.drains_at(at(10)).await;
        drainer.drains_at(at(11)).await;
        assert_eq!(orders.of("totals"), [2, 1]);
        assert_eq!(attempts(&store, 1).await, 1);
    }

    async fn a_recovered_row_is_applied_although_its_event_was_applied_a_moment_ago(store: Backend) {
        arrives(&store, 1, 1).await;
        store.execute(refuse_completion(&store)).await;
        let orders = Arc::<Orders>::default();
        let drainer = Drainer { now: Some(at(0)), ..drainer(&store, 1, &orders) };
        assert!(drainer.until_idle().await.is_err(), "applied, and not reported");
        store.execute(allow_completion(&store)).await;

        // Another process gives it up and recovers it, all at the same moment and at the same count of attempts.
        let other = store.another().await;
        other.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap().expect("moved");
        assert!(other.recover_dead_letter(id(1), Some(at(0))).await.unwrap());
        let drained = drainer.drains_at(at(0)).await;

        assert_eq!((drained.applied, drained.recent), (1, 0));
        assert_eq!((orders.of("totals"), attempts(&store, 1).await), (vec![1, 1], 1));
    }

    async fn a_row_whose_event_is_gone_ends_held_with_a_note(store: Backend) {
        store.insert("wh_perspective_events", &with(pending(1, 1), json!({"attempts": 10}))).await;
        let orders = Arc::<Orders>::default();
        drainer(&store, 1, &orders).drains_at(at(0)).await;
        assert_eq!(store.rows_in("wh_perspective_events").await, 0, "its attempts were spent");

        let mut host = host(&store).await;
        host.deploys("g2", at(10)).await;
        let counts = host.scans_at(at(10)).await;

        assert_eq!((counts.recovered, store.rows_in("wh_perspective_events").await), (0, 0));
        let letter = store.query("select dead_letter_id from wh_dead_letters").await.remove(0);
        let letter = store.letter(letter["dead_letter_id"].as_str().unwrap().parse().unwrap()).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
        assert!(letter.status_note.unwrap().contains("no longer in wh_event_store"));
    }

    async fn a_row_that_was_made_again_meanwhile_is_not_doubled(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 10})).await;
        let orders = Arc::<Orders>::default();
        let drainer = drainer(&store, 1, &orders);
        drainer.drains_at(at(0)).await;
        // The application asks for the same event again, under another id.
        let again = json!({"event_work_id": source(2), "event_id": event(1)});
        store.insert("wh_perspective_events", &with(pending(1, 1), again)).await;

        let mut host = host(&store).await;
        host.deploys("g2", at(10)).await;
        host.scans_at(at(10)).await;
        drainer.drains_at(at(10)).await;

        assert_eq!(orders.of("totals"), [1]);
        assert_eq!(store.value("select recovery_status from wh_dead_letters").await, 2, "held for review");
    }
}
