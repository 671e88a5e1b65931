//! Attempts that meet an obstacle in the source table.

use reprieve::model::{Deferral, RecoveryStatus};
use serde_json::json;

use super::host::{Told, dies, host, is_back};
use crate::harness::rows::{refuse_destination, with};
use crate::harness::{Backend, at, dead_letter, id, outbox_row, perspective_row, source};

on_both_stores! {
    async fn of_ten_rows_the_free_ones_are_recovered_and_the_others_held(store: Backend) {
        for n in 1..=10 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        for n in [2, 5, 9] {
            store.insert("wh_outbox", &with(outbox_row(n), json!({ "message_type": "There already" }))).await;
        }

        let counts = host(&store).await.scans_at(at(60)).await;

        assert_eq!((counts.scanned, counts.recovered, counts.held), (10, 7, 3));
        assert_eq!(store.rows_in("wh_outbox").await, 10);
        assert_eq!(store.rows_in("wh_dead_letters").await, 10);
        for n in [2, 5, 9] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.recovered_at), (RecoveryStatus::HoldForReview, None));
            assert!(letter.status_note.unwrap().contains("wh_outbox"));
            let there = store.source_row("wh_outbox", source(n)).await.unwrap();
            assert_eq!(there["message_type"], "There already");
        }
    }

    async fn a_perspective_row_whose_event_is_gone_is_held_with_a_note(store: Backend) {
        let row = json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event",
            "stream_id": perspective_row(1)["stream_id"], "perspective_name": "orders", "destination": null,
            "envelope": {"event_id": perspective_row(1)["event_id"], "perspective_name": "orders"},
        });
        store.insert("wh_dead_letters", &with(dead_letter(1), row)).await;

        let counts = host(&store).await.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.held), (0, 1));
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
        assert!(letter.status_note.unwrap().contains("wh_event_store"));
    }

    async fn a_row_that_cannot_be_inserted_waits_twice_as_long_each_time_and_then_ends(store: Backend) {
        store.execute(&refuse_destination(&store, "nowhere")).await;
        store.insert("wh_dead_letters", &with(dead_letter(1), json!({ "destination": "nowhere" }))).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        let host = host(&store).await;
        let mut now = 60;

        for (attempt, wait) in [(1, 30 * 60), (2, 60 * 60)] {
            let counts = host.scans_at(at(now)).await;
            assert_eq!((counts.failed, counts.held), (1, 0), "attempt {attempt}: {counts:?}");
            let letter = store.letter(id(1)).await;
            assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
            assert_eq!(letter.recovery_attempts, attempt);
            assert_eq!(letter.deferral, Some(Deferral::Failure));
            assert_eq!(letter.next_recovery_at, Some(at(now + wait)));
            assert!(letter.status_note.unwrap().contains("no way"));
            now += wait;
        }
        host.scans_at(at(now)).await;

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::PermanentlyFailed, 3));
        assert!(is_back(&store, 2).await, "the other row of the first batch was not kept back");
    }

    async fn what_was_decided_is_recorded_with_the_policy_and_what_it_saw(store: Backend) {
        let letter = dies(&store, 1, 0, 8, 0).await;
        let host = host(&store).await;

        host.scans_at(at(60)).await;

        let decisions = store.show(letter).await.unwrap().unwrap().decisions;
        assert_eq!(decisions.len(), 1);
        assert_eq!(decisions[0].decision, "recover");
        assert_eq!(decisions[0].policy_name.as_deref(), Some("default-matrix"));
        assert_eq!(decisions[0].policy_digest.as_deref(), Some(host.policy.current().digest()));
        assert_eq!(decisions[0].attempt, Some(1));
        assert_eq!(decisions[0].decided_at, at(60));
        let rule: serde_json::Value = serde_json::from_str(decisions[0].rule.as_ref().unwrap()).unwrap();
        assert_eq!((&rule["name"], &rule["cooldown_ms"]), (&json!("AggressiveRetry"), &json!(1_800_000)));
        let inputs: serde_json::Value = serde_json::from_str(decisions[0].inputs.as_ref().unwrap()).unwrap();
        assert_eq!((&inputs["failure_reason"], &inputs["recovery_attempts"]), (&json!("Throttled"), &json!(0)));
    }

    async fn a_large_backlog_is_worked_off_in_batches_along_one_pass(store: Backend) {
        for n in 1..=23 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let mut host = host(&store).await;
        let options = reprieve::recovery::RecoveryOptions { scan_batch_size: 5, lanes: 2, ..Default::default() };
        host.options = options.into();

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.scanned, counts.recovered), (23, 23));
        assert_eq!(store.rows_in("wh_outbox").await, 23);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn one_cycle_stops_when_it_has_decided_its_batch(store: Backend) {
        for n in 1..=23 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let mut host = host(&store).await;
        host.options = reprieve::recovery::RecoveryOptions { scan_batch_size: 5, ..Default::default() }.into();
        host.now = Some(at(60));

        let scanned = host.cycle().await.unwrap();

        assert!(scanned.full);
        assert_eq!((scanned.counts.scanned, scanned.counts.recovered), (5, 5));
        assert_eq!(store.rows_in("wh_outbox").await, 5);
        assert!(is_back(&store, 1).await && is_back(&store, 5).await, "the oldest come first");
    }
}
