//! Scans with policies that refuse rows, fail on some of them or fail on all.

use std::time::Duration;

use reprieve::model::{Deferral, OnPolicyError, RecoveryStatus};
use reprieve::recovery::{RecoveryOptions, ScanError, Scanner};
use reprieve::store::KeepSettled;
use serde_json::json;

use super::host::{Told, default_matrix, host, is_back, policy_of};
use crate::harness::{Backend, at, id};
use crate::policy::guests::{POLICY, component, core, hostile, refusing};

/// The message type of the rows that the guests treat badly.
const BAD: &str = "Xylophone";

/// A host with one lane that asks a guest.
pub async fn host_with(store: &Backend, guest: Vec<u8>, options: RecoveryOptions) -> Scanner {
    let host = host(store).await;
    host.policy.replace(policy_of(&guest).await);
    Scanner { options: RecoveryOptions { lanes: 1, ..options }.into(), ..host }
}

/// Puts dead letters there, every tenth of them bad.
async fn every_tenth_is_bad(store: &Backend, count: u64) {
    for n in 1..=count {
        let message_type = if n % 10 == 0 { BAD } else { "Good" };
        store.dead(n, json!({ "message_type": message_type })).await;
    }
}

/// A guest that does not start when the time is `at(60)`.
pub fn fails_on_everything() -> Vec<u8> {
    let imports = r#"(import "reprieve:policy/host@0.1.0" "now" (func $now (result i64)))"#;
    let bad_time = at(60).as_millisecond();
    let start = format!("(func $s (if (i64.eq (call $now) (i64.const {bad_time})) (then unreachable))) (start $s)");
    component(POLICY, &core(imports, &start, ""))
}

on_both_stores! {
    async fn rows_that_the_policy_refuses_keep_no_other_row_waiting_and_rest_for_a_scan_interval(store: Backend) {
        for n in 1..=12 {
            store.dead(n, json!({ "message_type": BAD })).await;
        }
        store.dead(13, json!({})).await;
        let mut host = host_with(&store, refusing(), RecoveryOptions { scan_batch_size: 5, ..Default::default() }).await;
        host.now = Some(at(60));

        let counts = host.cycle().await.unwrap().counts;

        assert_eq!((counts.scanned, counts.skipped, counts.recovered), (13, 12, 1));
        assert!(is_back(&store, 13).await);
        for n in 1..=12 {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 0));
            assert_eq!((letter.deferral, letter.next_recovery_at), (Some(Deferral::Skip), Some(at(660))));
        }
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 13);

        assert_eq!(host.scans_at(at(659)).await.scanned, 0, "they rest");
        assert_eq!(host.scans_at(at(660)).await.skipped, 12);
        assert_eq!(store.letter(id(1)).await.next_recovery_at, Some(at(1260)));
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 13, "nothing new was decided");
    }

    async fn a_row_on_which_the_policy_traps_waits_longer_each_time_and_is_held(store: Backend) {
        every_tenth_is_bad(&store, 20).await;
        let host = host_with(&store, hostile("unreachable"), RecoveryOptions::default()).await;
        let mut now = 60;

        for (errors, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
            let counts = host.scans_at(at(now)).await;

            assert_eq!((counts.policy_errors, counts.deferred, counts.held), (2, 2, 0), "error {errors}");
            assert_eq!(counts.recovered, if errors == 1 { 18 } else { 0 });
            let letter = store.letter(id(10)).await;
            assert_eq!((letter.policy_errors, letter.recovery_attempts), (errors, 0));
            assert_eq!(letter.deferral, Some(Deferral::PolicyError));
            assert_eq!(letter.next_recovery_at, Some(at(now + minutes * 60)));
            now += minutes * 60;
        }
        let counts = host.scans_at(at(now)).await;

        assert_eq!((counts.policy_errors, counts.held), (2, 2));
        for n in [10, 20] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.policy_errors), (RecoveryStatus::HoldForReview, 5));
            let note = letter.status_note.unwrap();
            assert!(note.contains("policy guest failed") && note.contains("unreachable"), "{note}");
            assert!(!is_back(&store, n).await);
        }
    }

    async fn max_policy_errors_says_when_a_row_is_held(store: Backend) {
        store.dead(1, json!({ "message_type": BAD })).await;
        let options = RecoveryOptions { max_policy_errors: 1, ..Default::default() };
        let host = host_with(&store, hostile("unreachable"), options).await;

        assert_eq!(host.scans_at(at(60)).await.held, 1);
    }

    async fn errors_of_another_policy_do_not_count(store: Backend) {
        let before = json!({ "message_type": BAD, "policy_errors": 4, "policy_error_digest": "another" });
        store.dead(1, before).await;
        let host = host_with(&store, hostile("unreachable"), RecoveryOptions::default()).await;

        host.scans_at(at(60)).await;

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.policy_errors), (RecoveryStatus::Pending, 1));
        assert_eq!(letter.policy_error_digest.as_deref(), Some(host.policy.current().digest()));
    }

    async fn a_policy_that_fails_on_everything_ends_the_scan_and_nothing_is_counted(store: Backend) {
        every_tenth_is_bad(&store, 20).await;
        let host = host_with(&store, fails_on_everything(), RecoveryOptions::default()).await;

        let error = Scanner { now: Some(at(60)), ..host.clone() }.until_idle().await.expect_err("no answer at all");

        assert!(matches!(&error, ScanError::PolicyFails { name, .. } if name == "guest"), "{error}");
        for n in 1..=20 {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.next_recovery_at), (RecoveryStatus::Pending, None));
            assert_eq!((letter.policy_errors, letter.recovery_attempts), (0, 0));
        }
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0, "the batch was given back");
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 0);
        assert_eq!(host.scans_at(at(61)).await.recovered, 20, "once it answers");
    }

    async fn rows_that_a_policy_put_off_meet_the_next_one_also_when_it_is_the_one_before(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({ "message_type": BAD })).await;
        }
        let refusing = refusing();
        let host = host_with(&store, refusing.clone(), RecoveryOptions::default()).await;
        assert_eq!(host.scans_at(at(60)).await.skipped, 3);
        assert_eq!(host.scans_at(at(61)).await.scanned, 0, "they rest");

        host.policy.replace(policy_of(&component(POLICY, &core("", "", "").replace("Guest", "Other"))).await);
        let other = host.policy.current();
        host.policy.replace(policy_of(&refusing).await);
        assert_eq!(host.scans_at(at(62)).await.scanned, 0, "its own refusals stand");

        store.execute(&format!("update wh_dead_letters set policy_error_digest = '{}'", other.digest())).await;
        assert_eq!(host.scans_at(at(63)).await.scanned, 0, "it has looked already");
        host.policy.replace(policy_of(&refusing).await);
        assert_eq!(host.scans_at(at(64)).await.skipped, 3, "it was put in use once more");
        host.policy.replace(other);
        assert_eq!(host.scans_at(at(65)).await.recovered, 3);
    }

    async fn decisions_are_deleted_in_one_pass_after_their_retention(store: Backend) {
        store.dead(1, json!({})).await;
        let host = host(&store).await;
        assert_eq!(host.scans_at(at(60)).await.recovered, 1);
        let later = |seconds| Scanner { now: Some(at(seconds)), ..host.clone() };
        let forget = async |seconds| {
            later(seconds).forget_decisions(Duration::from_secs(100), Duration::ZERO).await.unwrap()
        };
        assert_eq!(forget(160).await, 0);
        assert_eq!(forget(161).await, 1);
        assert_eq!(store.rows_in("wh_dead_letter_decisions").await, 0);
    }

    async fn settled_dead_letters_are_deleted_in_one_pass_after_their_retention(store: Backend) {
        store.dead(1, json!({})).await;
        let host = host(&store).await;
        assert_eq!(host.scans_at(at(60)).await.recovered, 1);
        let keep = KeepSettled { recovered: Some(Duration::from_secs(100)), permanently_failed: None };
        let forget = async |seconds| {
            let later = Scanner { now: Some(at(seconds)), ..host.clone() };
            later.forget_settled(keep, Duration::ZERO).await.unwrap()
        };
        assert_eq!(forget(160).await, 0);
        assert_eq!(forget(161).await, 1);
        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    }

    async fn the_default_matrix_answers_where_the_policy_fails_when_it_is_the_fallback(store: Backend) {
        every_tenth_is_bad(&store, 10).await;
        let options = RecoveryOptions { on_policy_error: OnPolicyError::Fallback, ..Default::default() };
        let mut host = host_with(&store, hostile("unreachable"), options).await;
        host.fallback = Some(default_matrix().await);

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.deferred), (10, 0));
        assert_eq!(store.letter(id(10)).await.policy_errors, 0);
        for (n, policy) in [(1, "guest"), (10, "default-matrix")] {
            let decisions = store.show(id(n)).await.unwrap().unwrap().decisions;
            assert_eq!(decisions[0].policy_name.as_deref(), Some(policy));
        }
    }

    async fn a_fallback_answers_for_a_policy_that_fails_on_everything(store: Backend) {
        every_tenth_is_bad(&store, 10).await;
        let options = RecoveryOptions { on_policy_error: OnPolicyError::Fallback, ..Default::default() };
        let mut host = host_with(&store, fails_on_everything(), options).await;
        host.fallback = Some(default_matrix().await);

        let counts = host.scans_at(at(60)).await;

        assert_eq!((counts.recovered, counts.policy_errors), (10, 0));
    }
}
