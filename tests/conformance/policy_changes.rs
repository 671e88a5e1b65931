//! What applications and new policies make due.

use reprieve::model::{Disposition, RecoveryStatus};
use reprieve::store::ClearDeferrals;
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

    async fn a_retry_that_an_application_wrote_is_recorded_with_what_stands_in_the_row(store: Backend) {
        let asked = json!({
            "operator_disposition": 1, "recovery_attempts": 2, "operator_actor": "ann", "operator_notes": "try",
        });
        store.dead(1, asked).await;

        store.take_operator_retries(Some(at(100))).await.unwrap();

        let recorded = "select decision, attempt, note, rule ->> 'actor' as actor from wh_dead_letter_decisions";
        let recorded = store.query(recorded).await;
        let expected = json!([{"decision": "retry", "attempt": 2, "note": "try", "actor": "ann"}]);
        assert_eq!(json!(recorded), expected);
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

    async fn what_may_not_change_keeps_no_other_from_meeting_the_new_policy(store: Backend) {
        for n in 1..=5 {
            let deferred = json!({"next_recovery_at": time_text(at(9999)), "deferral": "skip", "policy_error_digest": "old"});
            store.dead(n, deferred).await;
        }
        store.refuse_changes_of(id(3)).await;

        assert_eq!(clear(&store, false).await, 4);
    }

    async fn a_retry_that_is_passed_over_in_silence_is_told_and_not_recorded(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({"operator_disposition": 1, "recovery_status": 2})).await;
        }
        store.pass_over_changes(&format!("new.dead_letter_id = '{}'", id(2))).await;

        let told = store.take_operator_retries(Some(at(100))).await.unwrap_err();

        assert!(told.to_string().contains("was not carried out"), "{told}");
        assert_eq!(store.rows_in("wh_dead_letters where recovery_status = 0").await, 2);
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 2);
    }

    async fn a_new_policy_meets_what_another_one_put_off(store: Backend) {
        let deferred = |why: &str, by: Option<&str>| {
            json!({"next_recovery_at": time_text(at(9999)), "deferral": why, "policy_error_digest": by})
        };
        let whys = ["skip", "policy-error", "cooldown", "failure", "operator", "stream"];
        for (n, why) in (1..).zip(whys) {
            store.dead(n, deferred(why, Some("old"))).await;
        }
        store.dead(7, json!({"recovery_status": 2, "deferral": "skip", "policy_error_digest": "old"})).await;
        store.dead(8, deferred("skip", Some("new"))).await;
        store.dead(9, deferred("policy-error", None)).await;

        assert_eq!(clear(&store, false).await, 2);
        assert_eq!(clear(&store, false).await, 0);

        assert_eq!(claim(&*store, 10, at(100)).await.ids().len(), 2);
        for n in [3, 4, 5, 6, 8, 9] {
            assert_eq!(store.letter(id(n)).await.next_recovery_at, Some(at(9999)));
        }
        assert_eq!(store.letter(id(7)).await.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(clear(&store, true).await, 1, "and what nobody knows the policy of");
    }

    async fn a_pass_reaches_rows_behind_more_than_a_chunk_that_stay(store: Backend) {
        let many = (1..=2100).map(|n| {
            let by = if n > 2090 { "old" } else { "new" };
            json!({"deferral": "skip", "policy_error_digest": by, "next_recovery_at": time_text(at(9999)), "n": n})
        });
        for mut fields in many {
            let n = fields.as_object_mut().unwrap().remove("n").unwrap().as_u64().unwrap();
            store.dead(n, fields).await;
        }

        assert_eq!(clear(&store, false).await, 10);
        assert_eq!(clear(&store, false).await, 0);
    }
}

/// One pass at the time 100 for the policy `new`; how many rows it made due.
async fn clear(store: &Backend, unknown: bool) -> u64 {
    let (mut rows, mut after) = (0, None::<String>);
    loop {
        let request = ClearDeferrals { digest: "new", unknown, after: after.as_deref(), now: Some(at(100)) };
        let cleared = store.clear_policy_deferrals(&request).await.unwrap();
        rows += cleared.rows;
        after = cleared.next;
        if after.is_none() {
            return rows;
        }
    }
}
