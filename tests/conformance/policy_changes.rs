//! What applications and new policies make due.

use reprieve::model::{Disposition, RecoveryStatus};
use serde_json::json;

use crate::harness::{Backend, at, claim, id, time_text};

on_both_stores! {
    async fn a_retry_that_an_application_wrote_is_taken_once(store: Backend) {
        let far = time_text(at(9999));
        store.dead(1, json!({"operator_disposition": 1, "next_recovery_at": far})).await;
        store.dead(2, json!({"operator_disposition": 1, "recovery_status": 2})).await;
        store.dead(3, json!({"operator_disposition": 1, "recovery_status": 4})).await;
        store.dead(4, json!({"next_recovery_at": far})).await;

        assert_eq!(store.take_operator_retries(Some(at(100))).await.unwrap(), 3);
        assert_eq!(store.take_operator_retries(Some(at(101))).await.unwrap(), 0);

        for n in 1..=3 {
            let letter = store.letter(id(n)).await;
            assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
            assert_eq!(letter.operator_disposition, Disposition::None);
            assert_eq!((letter.replay_credit.as_deref(), letter.replay_credit_at), (Some("*"), Some(at(100))));
        }
        assert_eq!(claim(&*store, 10, at(100)).await.ids().len(), 3);
    }

    async fn a_retry_written_on_a_recovered_row_does_nothing(store: Backend) {
        let recovered = json!({"operator_disposition": 1, "recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(1, recovered).await;

        store.take_operator_retries(Some(at(100))).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.replay_credit), (RecoveryStatus::Recovered, None));
    }

    async fn a_retry_that_waits_is_due_now(store: Backend) {
        store.dead(1, json!({"operator_disposition": 1, "recovery_status": 2})).await;

        assert!(store.due("g1", Some(at(100))).await.unwrap().due_now);
        store.take_operator_retries(Some(at(100))).await.unwrap();
        assert!(store.due("g1", Some(at(100))).await.unwrap().due_now);
    }

    async fn a_new_policy_meets_what_the_old_one_put_off(store: Backend) {
        let deferred = |why: &str| json!({"next_recovery_at": time_text(at(9999)), "deferral": why});
        for (n, why) in [(1, "skip"), (2, "policy-error"), (3, "cooldown"), (4, "failure"), (5, "operator"), (6, "stream")] {
            store.dead(n, deferred(why)).await;
        }
        store.dead(7, json!({"recovery_status": 2, "deferral": "skip"})).await;

        store.dead(8, json!({"policy_error_digest": "new", "deferral": "skip", "next_recovery_at": time_text(at(9999))})).await;

        assert_eq!(store.clear_policy_deferrals("new", Some(at(100))).await.unwrap(), 2);
        assert_eq!(store.clear_policy_deferrals("new", Some(at(100))).await.unwrap(), 0);

        assert_eq!(claim(&*store, 10, at(100)).await.ids().len(), 2);
        for n in [3, 4, 5, 6, 8] {
            assert_eq!(store.letter(id(n)).await.next_recovery_at, Some(at(9999)));
        }
        assert_eq!(store.letter(id(7)).await.recovery_status, RecoveryStatus::HoldForReview);
    }
}
