//! What makes a row due that waits for an earlier one of its stream.

use reprieve::recovery::{RecoveryOptions, Scanner};
use reprieve::store::OperatorVerb;
use serde_json::json;

use super::host::{Told, host, is_back};
use super::policies::host_with;
use super::streams::{host_that, of_stream};
use super::streams_behind::{SCAN_INTERVAL, is_due, operate, three, waits};
use crate::harness::rows::with;
use crate::harness::{Backend, arrivals, at, id, time_text, watch_arrivals};
use crate::policy::guests::ordering;

on_both_stores! {
    async fn a_held_row_stops_its_stream_only_with_held_blocks_stream(store: Backend) {
        three(&store, json!({ "recovery_status": 2 })).await;
        let strict = host_that(&store, RecoveryOptions { held_blocks_stream: true, ..Default::default() }).await;

        assert_eq!(strict.scans_at(at(60)).await.blocked, 2);
        waits(&store, 2, 1, at(60 + SCAN_INTERVAL)).await;
        operate(&store, OperatorVerb::Retry, 1, 61).await;
        assert_eq!(strict.scans_at(at(61)).await.recovered, 3, "the first one's success makes the others due");

        of_stream(&store, 4, 2, json!({ "recovery_status": 2 })).await;
        of_stream(&store, 5, 2, json!({})).await;
        of_stream(&store, 6, 2, json!({ "recovery_status": 4 })).await;
        of_stream(&store, 7, 2, json!({})).await;
        assert_eq!(strict.scans_at(at(62)).await.blocked, 2);
        operate(&store, OperatorVerb::GiveUp, 4, 63).await;
        assert_eq!(strict.scans_at(at(63)).await.recovered, 2, "a failed one never does");
        of_stream(&store, 8, 3, json!({ "recovery_status": 2 })).await;
        of_stream(&store, 9, 3, json!({})).await;
        assert_eq!(host(&store).await.scans_at(at(64)).await.recovered, 1);
    }

    async fn a_row_of_which_the_policy_was_not_asked_stands_in_the_way_until_it_is(store: Backend) {
        // It cools down under a former policy's decision, and nothing was recorded.
        let first = json!({ "message_type": "Xylophone", "next_recovery_at": time_text(at(300)) });
        three(&store, with(first, json!({ "last_recovery_at": time_text(at(0)), "recovery_attempts": 1 }))).await;
        let host = host_with(&store, ordering(), RecoveryOptions::default()).await;

        assert_eq!(host.scans_at(at(60)).await.blocked, 2);
        let counts = host.scans_at(at(300)).await;
        assert_eq!((counts.deferred, counts.recovered), (1, 2), "it cools down, and the others go on");
    }

    async fn waiting_rows_do_not_keep_those_after_them_from_being_reached(store: Backend) {
        of_stream(&store, 1, 1, json!({ "next_recovery_at": time_text(at(86_400)) })).await;
        for n in 2..=40 {
            of_stream(&store, n, 1, json!({})).await;
        }
        of_stream(&store, 41, 2, json!({})).await;
        let mut host = host_that(&store, RecoveryOptions { scan_batch_size: 5, ..Default::default() }).await;
        host.now = Some(at(100));

        let counts = host.cycle().await.unwrap().counts;

        assert_eq!((counts.blocked, counts.recovered), (39, 1));
        assert!(is_back(&store, 41).await);
        let host = Scanner { now: None, ..host };
        assert_eq!(host.scans_at(at(100)).await.scanned, 0, "nothing is due");
    }

    async fn whoever_takes_a_row_out_of_the_way_makes_the_next_one_due_at_once(store: Backend) {
        let way = async |n: u64| {
            store.execute("delete from wh_dead_letters").await;
            store.execute("delete from wh_dead_letter_decisions").await;
            three(&store, json!({ "next_recovery_at": time_text(at(86_400)) })).await;
            assert_eq!(host(&store).await.scans_at(at(60)).await.blocked, 2, "way {n}");
        };
        for (n, verb) in [(1, OperatorVerb::Hold), (2, OperatorVerb::HoldIndefinitely), (3, OperatorVerb::GiveUp)] {
            way(n).await;
            operate(&store, verb, 1, 61).await;
            is_due(&store, 2, 61).await;
            is_due(&store, 3, 61).await;
        }
        way(4).await;
        store.mark_dead_letter_holding(id(1)).await.unwrap();
        assert_eq!(store.letter(id(2)).await.deferral, None);
        way(5).await;
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();
        assert_eq!(store.letter(id(2)).await.deferral, None);
        way(6).await;
        assert!(store.recover_dead_letter(id(1), Some(at(61))).await.unwrap());
        is_due(&store, 2, 61).await;
        way(7).await;
        assert!(!store.recover_dead_letter(id(1), Some(at(61))).await.unwrap(), "it is there already, and held");
        is_due(&store, 2, 61).await;
    }

    async fn an_operators_retry_of_a_row_goes_behind_the_earlier_ones_still(store: Backend) {
        three(&store, json!({ "next_recovery_at": time_text(at(86_400)) })).await;
        let host = host(&store).await;
        host.scans_at(at(60)).await;

        operate(&store, OperatorVerb::Retry, 2, 61).await;
        assert_eq!(host.scans_at(at(61)).await.blocked, 1);

        operate(&store, OperatorVerb::Retry, 1, 62).await;
        assert_eq!(host.scans_at(at(62)).await.recovered, 3);
    }

    async fn a_row_that_is_kept_for_another_generation_keeps_those_behind_it_waiting(store: Backend) {
        three(&store, json!({ "replay_credit": "g2", "replay_credit_at": time_text(at(30)) })).await;
        watch_arrivals(&store).await;
        let mut host = host(&store).await;
        assert_eq!(host.scans_at(at(60)).await.blocked, 2);
        waits(&store, 2, 1, at(60 + SCAN_INTERVAL)).await;

        host.deploys("g2", at(70)).await;
        assert_eq!(host.scans_at(at(70)).await.recovered, 3);
        assert_eq!(arrivals(&store).await, [1, 2, 3]);
    }
}
