//! What keeps a row of a stream waiting, and what makes it due.

use jiff::Timestamp;
use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::recovery::RecoveryOptions;
use reprieve::store::{OperatorChange, OperatorVerb, Target};
use serde_json::{Value, json};

use super::host::{Told, host, is_back};
use super::policies::host_with;
use super::streams::{host_that, of_stream};
use crate::harness::rows::{refuse_destination, with};
use crate::harness::{Backend, arrivals, at, id, outbox_row, time_text, watch_arrivals};
use crate::policy::guests::{ordering, refusing_in_order};

/// Seconds of the scan interval of every host here.
pub const SCAN_INTERVAL: i64 = 600;

/// Three messages of one stream, of which the first has a column of its own.
pub async fn three(store: &Backend, first: Value) {
    of_stream(store, 1, 1, first).await;
    of_stream(store, 2, 1, json!({})).await;
    of_stream(store, 3, 1, json!({})).await;
}

/// That a row waits for another, until then.
pub async fn waits(store: &Backend, n: u64, earlier: u64, until: Timestamp) {
    let letter = store.letter(id(n)).await;
    assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 0), "{n}");
    assert_eq!((letter.deferral, letter.next_recovery_at), (Some(Deferral::Stream), Some(until)), "{n}");
    let note = letter.status_note.unwrap();
    assert_eq!(note, format!("waits for {}, which stands before it in its stream", id(earlier)));
    assert_eq!(store.waits_for(&[id(n)]).await.unwrap().get(&id(n)), Some(&id(earlier)));
}

/// That a row is due at a moment, and waits for nothing.
pub async fn is_due(store: &Backend, n: u64, now: i64) {
    let letter = store.letter(id(n)).await;
    assert_eq!((letter.recovery_status, letter.deferral), (RecoveryStatus::Pending, None), "{n}");
    assert!(letter.next_recovery_at.is_none_or(|due_at| due_at <= at(now)), "{n}: {:?}", letter.next_recovery_at);
    assert!(store.waits_for(&[id(n)]).await.unwrap().is_empty());
}

/// An operator does something about a row.
pub async fn operate(store: &Backend, verb: OperatorVerb, n: u64, now: i64) {
    let request =
        OperatorChange { verb, target: Target::Ids(vec![id(n)]), actor: "kim", note: None, now: Some(at(now)) };
    store.change(&request).await.unwrap();
}

on_both_stores! {
    async fn a_row_that_cools_down_keeps_those_behind_it_waiting_no_longer_than_itself(store: Backend) {
        three(&store, json!({ "last_recovery_at": time_text(at(-1500)), "recovery_attempts": 1 })).await;
        watch_arrivals(&store).await;
        let host = host(&store).await;

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.scanned, counts.deferred, counts.blocked, counts.recovered), (3, 1, 2, 0));
        for n in [2, 3] {
            waits(&store, n, 1, at(300)).await;
        }
        assert_eq!(host.scans_at(at(299)).await.scanned, 0);
        assert_eq!(host.scans_at(at(300)).await.recovered, 3);
        assert_eq!(arrivals(&store).await, [1, 2, 3]);
    }

    async fn nobody_waits_longer_than_the_scan_interval_without_being_looked_at(store: Backend) {
        three(&store, json!({ "last_recovery_at": time_text(at(0)), "recovery_attempts": 1 })).await;
        let host = host(&store).await;

        host.scans_at(at(60)).await;

        waits(&store, 2, 1, at(60 + SCAN_INTERVAL)).await;
        assert_eq!(host.scans_at(at(60 + SCAN_INTERVAL)).await.blocked, 2);
        let decisions = store.show(id(2)).await.unwrap().unwrap().decisions;
        assert_eq!(decisions.len(), 1, "nothing new was decided");
        assert_eq!(decisions[0].decision, "wait");
    }

    async fn a_row_that_cannot_be_inserted_keeps_those_behind_it_back_and_they_take_no_attempt(store: Backend) {
        store.execute(&refuse_destination(&store, "nowhere")).await;
        for n in 1..=5 {
            of_stream(&store, n, 1, json!({ "destination": if n == 3 { "nowhere" } else { "orders" } })).await;
            of_stream(&store, n + 10, 2, json!({})).await;
        }
        watch_arrivals(&store).await;
        let host = host(&store).await;

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.failed, counts.blocked), (7, 1, 2));
        let of_one: Vec<u64> = arrivals(&store).await.into_iter().filter(|n| *n < 10).collect();
        assert_eq!(of_one, [1, 2]);
        for n in [4, 5] {
            waits(&store, n, 3, at(60 + SCAN_INTERVAL)).await;
        }
        operate(&store, OperatorVerb::GiveUp, 3, 70).await;
        is_due(&store, 4, 70).await;
        assert_eq!(host.scans_at(at(70)).await.recovered, 2);
        let of_one: Vec<u64> = arrivals(&store).await.into_iter().filter(|n| *n < 10).collect();
        assert_eq!(of_one, [1, 2, 4, 5]);
    }

    async fn a_row_whose_last_attempt_fails_lets_those_behind_it_go(store: Backend) {
        store.execute(&refuse_destination(&store, "nowhere")).await;
        three(&store, json!({ "destination": "nowhere", "recovery_attempts": 2 })).await;

        let counts = host(&store).await.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.failed, counts.blocked), (2, 1, 0));
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::PermanentlyFailed);
    }

    async fn a_row_that_is_there_already_is_held_and_stops_its_stream_only_where_held_ones_do(store: Backend) {
        three(&store, json!({})).await;
        for n in 4..=6 {
            of_stream(&store, n, 2, json!({})).await;
        }
        for n in [1, 5] {
            store.insert("wh_outbox", &with(outbox_row(n), json!({ "message_type": "There already" }))).await;
        }
        let counts = host(&store).await.scans_at(at(60)).await;
        assert_eq!((counts.recovered, counts.held, counts.blocked), (4, 2, 0));

        for n in 7..=9 {
            of_stream(&store, n, 3, json!({})).await;
        }
        store.insert("wh_outbox", &outbox_row(8)).await;
        let strict = host_that(&store, RecoveryOptions { held_blocks_stream: true, ..Default::default() }).await;
        let counts = strict.scans_at(at(70)).await;
        assert_eq!((counts.recovered, counts.held, counts.blocked), (1, 1, 1));
        waits(&store, 9, 8, at(70 + SCAN_INTERVAL)).await;
    }

    async fn a_row_that_the_policy_holds_or_gives_up_lets_those_behind_it_go_in_the_same_scan(store: Backend) {
        three(&store, json!({ "failure_reason": 4 })).await;
        of_stream(&store, 4, 2, json!({ "recovery_attempts": 3 })).await;
        of_stream(&store, 5, 2, json!({})).await;
        let mut host = host(&store).await;
        host.now = Some(at(60));

        let counts = host.cycle().await.unwrap().counts;

        assert_eq!((counts.held, counts.permanently_failed, counts.recovered, counts.blocked), (1, 1, 3, 0));
    }

    async fn a_row_that_the_policy_refuses_for_now_keeps_those_behind_it_waiting(store: Backend) {
        three(&store, json!({ "message_type": "Xylophone" })).await;
        let host = host_with(&store, refusing_in_order(), RecoveryOptions::default()).await;

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.skipped, counts.blocked, counts.recovered), (1, 2, 0));
        waits(&store, 2, 1, at(60 + SCAN_INTERVAL)).await;
    }

    async fn a_row_that_takes_no_part_in_the_order_neither_waits_nor_keeps_others_waiting(store: Backend) {
        let tried = json!({ "last_recovery_at": time_text(at(0)), "recovery_attempts": 1 });
        three(&store, with(json!({ "message_type": "Xylophone" }), tried.clone())).await;
        let host = host_with(&store, ordering(), RecoveryOptions::default()).await;
        let counts = host.scans_at(at(60)).await;
        assert_eq!((counts.deferred, counts.blocked, counts.recovered), (1, 0, 2));
        of_stream(&store, 4, 1, json!({})).await;
        assert_eq!(host.scans_at(at(61)).await.recovered, 1, "nor in a later batch");

        of_stream(&store, 5, 2, tried).await;
        of_stream(&store, 6, 2, json!({ "message_type": "Xylophone" })).await;
        let counts = host.scans_at(at(62)).await;
        assert_eq!((counts.deferred, counts.recovered), (1, 1));
        assert!(is_back(&store, 6).await);
    }

    async fn an_older_death_of_a_message_that_died_again_is_in_nobodys_way(store: Backend) {
        let sleeping = json!({ "next_recovery_at": time_text(at(86_400)) });
        of_stream(&store, 1, 1, sleeping).await;
        let again = json!({ "source_id": crate::harness::source(1), "incarnation": 2 });
        let made = store.raw_letter(id(1)).await["source_created_at"].clone();
        of_stream(&store, 2, 1, with(again, json!({ "source_created_at": made }))).await;
        of_stream(&store, 3, 1, json!({})).await;

        let counts = host(&store).await.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.blocked), (2, 0));
    }
}
