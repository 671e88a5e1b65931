//! Guests that misbehave on some entries: each costs its own entry and nothing else.

use std::time::Duration;

use reprieve::policy::{FailureKind, PolicyFailure};

use super::guests::{
    FOREVER, GROWS_BIT_BY_BIT, HUGE_NAME, INVALID_NAME, LOG, POLICY, component, core, hostile, log_flooder, name_of,
    recursive, sleeper, table_grower,
};
use super::{load_bytes, now, of_types, refusal};

/// Asks about good, bad, good, bad, good; the bad ones fail with `kind`, the others are answered.
async fn bad_ones_fail(guest: Vec<u8>, kind: FailureKind) -> PolicyFailure {
    let policy = load_bytes(guest).await.unwrap();
    let mut session = policy.session(now());
    let answers = session.ask(of_types(&["Good", "X1", "Good", "X2", "Good"])).await;
    for good in [&answers[0], &answers[2], &answers[4]] {
        assert_eq!(good.as_ref().unwrap().policy.name, "Guest");
    }
    let failure = answers[1].clone().unwrap_err();
    assert_eq!((failure.kind, failure.member.as_str()), (kind, "guest"), "{failure}");
    assert_eq!(answers[3].clone().unwrap_err().kind, kind);
    assert!(!failure.message.contains('\n'), "{failure}");
    let later = session.ask(of_types(&["Good"])).await;
    assert!(later[0].is_ok());
    failure
}

#[tokio::test]
async fn a_trap_fails_its_entry() {
    let failure = bad_ones_fail(hostile("unreachable"), FailureKind::Trap).await;
    assert!(failure.message.contains("unreachable"), "{failure}");
}

#[tokio::test]
async fn an_infinite_loop_is_stopped() {
    bad_ones_fail(hostile(FOREVER), FailureKind::Timeout).await;
}

#[tokio::test]
async fn endless_recursion_is_stopped() {
    let failure = bad_ones_fail(recursive(), FailureKind::Trap).await;
    assert!(failure.message.contains("stack"), "{failure}");
}

#[tokio::test]
async fn memory_beyond_the_limit_is_refused() {
    let failure = bad_ones_fail(hostile("(drop (memory.grow (i32.const 100)))"), FailureKind::OutOfMemory).await;
    assert!(failure.message.contains("allowed are 4194304"), "{failure}");
    bad_ones_fail(hostile(GROWS_BIT_BY_BIT), FailureKind::OutOfMemory).await;
}

#[tokio::test]
async fn a_table_beyond_the_limit_is_refused() {
    let failure = bad_ones_fail(table_grower(), FailureKind::OutOfMemory).await;
    assert!(failure.message.contains("table of 10000001 elements"), "{failure}");
}

#[tokio::test]
async fn a_name_that_makes_no_sense_is_no_answer() {
    for (length, words) in [(0, "empty name"), (201, "more than 200 characters")] {
        let failure = bad_ones_fail(hostile(&name_of(length)), FailureKind::InvalidAnswer).await;
        assert!(failure.message.contains(words), "{failure}");
    }
    let longest = load_bytes(hostile(&name_of(200))).await.unwrap();
    assert!(longest.session(now()).ask(of_types(&["X"])).await[0].is_ok());
    // Beyond its memory, and no UTF-8.
    bad_ones_fail(hostile(&name_of(50_000_000)), FailureKind::InvalidAnswer).await;
    bad_ones_fail(hostile(INVALID_NAME), FailureKind::InvalidAnswer).await;
}

#[tokio::test]
async fn a_huge_name_is_refused_before_it_is_copied() {
    let failure = bad_ones_fail(hostile(HUGE_NAME), FailureKind::InvalidAnswer).await;
    assert!(failure.message.contains("fuel"), "{failure}");
}

#[tokio::test]
async fn the_longest_cooldown_is_taken_as_it_is() {
    let on_x = "(i64.store (i32.const 144) (i64.const -1)) (return (i32.const 128))";
    let policy = load_bytes(hostile(on_x)).await.unwrap();
    let answer = policy.session(now()).ask(of_types(&["X"])).await.remove(0).unwrap();
    assert_eq!(answer.policy.cooldown, Duration::from_millis(u64::MAX));
}

#[tokio::test]
async fn a_flood_of_log_lines_is_stopped_by_the_time_limit() {
    bad_ones_fail(log_flooder(), FailureKind::Timeout).await;
}

#[tokio::test]
async fn a_log_line_that_is_no_text_fails_its_entry() {
    let line = "(i32.store8 (i32.const 600) (i32.const 255)) (call $log (i32.const 1) (i32.const 600) (i32.const 5))";
    bad_ones_fail(component(POLICY, &core(LOG, "", line)), FailureKind::InvalidAnswer).await;
}

#[tokio::test]
async fn sleeping_through_wasi_is_cut_off() {
    let failure = bad_ones_fail(sleeper(), FailureKind::Timeout).await;
    assert!(failure.message.contains("waited"), "{failure}");
}

#[tokio::test]
async fn a_policy_that_always_traps_is_not_loaded() {
    let always = core("", "", "").replace("(i32.const 64))", "unreachable)");
    let message = refusal(component(POLICY, &always)).await;
    assert!(message.contains("a sample entry: policy guest failed (trap)"), "{message}");
}

#[tokio::test]
async fn a_loop_in_the_start_function_is_stopped() {
    let start = "(func $forever (loop $l (br $l))) (start $forever)";
    let message = refusal(component(POLICY, &core("", start, ""))).await;
    assert!(message.contains("policy guest failed (start): does not start: timeout"), "{message}");
}

#[tokio::test]
async fn a_policy_that_no_longer_starts_fails_every_entry() {
    let imports = r#"(import "reprieve:policy/host@0.1.0" "now" (func $now (result i64)))"#;
    let at = now().as_millisecond();
    let start = format!("(func $s (if (i64.eq (call $now) (i64.const {at})) (then unreachable))) (start $s)");
    let policy = load_bytes(component(POLICY, &core(imports, &start, ""))).await.unwrap();
    let answers = policy.session(now()).ask(of_types(&["A"; 6])).await;
    assert_eq!(answers.len(), 6);
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind, FailureKind::Start);
    }
    let other_time = now() + Duration::from_secs(1);
    assert!(policy.session(other_time).ask(of_types(&["A"])).await[0].is_ok());
}
