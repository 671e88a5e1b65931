//! Guests that misbehave on some rows, met by a whole scan.

use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::recovery::RecoveryOptions;
use serde_json::json;

use super::host::{Told, is_back};
use super::policies::host_with;
use crate::harness::{Backend, at, id, time_text};
use crate::policy::guests::{every_hostile_kind, hostile};

/// The rows on which the guests misbehave.
const BAD: [u64; 2] = [10, 20];

on_both_stores! {
    async fn each_kind_costs_its_own_rows_and_no_other_and_the_next_scan_goes_on(store: Backend) {
        for (what, guest) in every_hostile_kind() {
            store.execute("delete from wh_dead_letters").await;
            store.execute("delete from wh_outbox").await;
            for n in 1..=20 {
                let message_type = if BAD.contains(&n) { "Xylophone" } else { "Good" };
                store.dead(n, json!({ "message_type": message_type })).await;
            }
            let host = host_with(&store, guest, RecoveryOptions { max_policy_errors: 2, ..Default::default() }).await;

            let counts = host.scans_at(at(60)).await;
            assert_eq!((counts.recovered, counts.deferred, counts.policy_errors), (18, 2, 2), "a guest that {what}");
            for n in BAD {
                let letter = store.letter(id(n)).await;
                let standing = (letter.recovery_status, letter.deferral, letter.next_recovery_at);
                let deferred = (RecoveryStatus::Pending, Some(Deferral::PolicyError), Some(at(120)));
                assert_eq!(standing, deferred, "a guest that {what}");
            }

            store.dead(21, json!({ "message_type": "Good" })).await;
            let counts = host.scans_at(at(120)).await;
            assert_eq!((counts.recovered, counts.held), (1, 2), "a guest that {what}");
            for n in BAD {
                let letter = store.letter(id(n)).await;
                assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview, "a guest that {what}");
                assert!(letter.status_note.unwrap().contains("policy guest failed"), "a guest that {what}");
                assert!(!is_back(&store, n).await);
            }
        }
    }

    async fn a_cooldown_without_end_is_waited_for_and_overflows_nothing(store: Backend) {
        let tried = json!({
            "recovery_attempts": 1, "last_recovery_at": time_text(at(1)), "generation": "g1",
            "message_type": "Xylophone",
        });
        store.dead(1, tried).await;
        // All bits set: read as a signed number it would be -1, as a float no number.
        let endless = "(i64.store (i32.const 144) (i64.const -1)) (return (i32.const 128))";
        let host = host_with(&store, hostile(endless), RecoveryOptions::default()).await;

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.deferred, counts.recovered), (1, 0));
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.deferral, Some(Deferral::Cooldown));
        assert!(letter.next_recovery_at.unwrap() > at(100 * 365 * 24 * 60 * 60));
        assert_eq!(host.scans_at(at(61)).await.scanned, 0);
    }
}
