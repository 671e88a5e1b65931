//! Members that pass questions on.

use reprieve::model::FailureReason;
use reprieve::policy::{FailureKind, LoadError};
use serde_json::json;

use super::guests::{PASSES_ON, POLICY, WITH_FALLBACK, component, core, hostile};
use super::{ENGINE, Files, ask_one, entry, now, of_types, with_settings};

#[tokio::test]
async fn what_is_passed_on_reaches_the_default_matrix() {
    let files = Files::new();
    let policy = ENGINE.load(vec![files.member("first", component(WITH_FALLBACK, PASSES_ON))]).await.unwrap();
    assert_eq!(policy.name(), "first");
    let answer = ask_one(&policy, &entry(FailureReason(6))).await.unwrap();
    assert_eq!((answer.policy.name.as_str(), answer.policy.max_recovery_attempts), ("AggressiveRetry", 5));
    assert!(answer.should_recover);
}

#[tokio::test]
async fn each_member_has_settings_of_its_own() {
    let files = Files::new();
    let passes_on = component(WITH_FALLBACK, PASSES_ON);
    let matrix = with_settings(json!({ "policy_by_reason": { "Throttled": { "name": "Configured" } } }));
    let chain = vec![files.member("a", &passes_on), files.member("b", &passes_on), matrix];
    let policy = ENGINE.load(chain).await.unwrap();
    assert_eq!(policy.about().len(), 3);
    assert_eq!(ask_one(&policy, &entry(FailureReason(8))).await.unwrap().policy.name, "Configured");
}

#[tokio::test]
async fn a_failure_is_blamed_on_the_member_that_failed() {
    let files = Files::new();
    let passes_on = component(WITH_FALLBACK, PASSES_ON);
    for (bad, kind) in [
        (hostile("unreachable"), FailureKind::Trap),
        (hostile("(loop $forever (br $forever))"), FailureKind::Timeout),
        (hostile("(drop (memory.grow (i32.const 100)))"), FailureKind::OutOfMemory),
    ] {
        let chain = vec![files.member("first", &passes_on), files.member("bad", bad)];
        let policy = ENGINE.load(chain).await.unwrap();
        let answers = policy.session(now()).ask(of_types(&["Good", "X", "Good"])).await;
        assert!(answers[0].is_ok() && answers[2].is_ok());
        let failure = answers[1].clone().unwrap_err();
        assert_eq!((failure.kind, failure.member.as_str()), (kind, "bad"), "{failure}");
    }
}

#[tokio::test]
async fn memory_is_summed_over_the_members() {
    let files = Files::new();
    // Each could have 40 of the 64 pages alone; together they cannot.
    let large = PASSES_ON.replace(r#"(memory (export "memory") 2)"#, r#"(memory (export "memory") 40)"#);
    let large = component(WITH_FALLBACK, &large);
    assert!(ENGINE.load(vec![files.member("one", &large)]).await.is_ok());
    let Err(error) = ENGINE.load(vec![files.member("one", &large), files.member("two", &large)]).await else {
        panic!("loaded")
    };
    let LoadError::Probe { failure, .. } = error else { panic!("{error}") };
    assert_eq!((failure.kind, failure.member.as_str()), (FailureKind::Start, "one"));
    assert!(failure.message.contains("out-of-memory"), "{failure}");
}

#[tokio::test]
async fn one_deadline_holds_for_the_whole_chain() {
    let files = Files::new();
    // Its own loop runs after the next member has answered.
    let then_loops = PASSES_ON.replace(
        "(call $get-policy (local.get 0) (i32.const 64))",
        "(call $get-policy (local.get 0) (i32.const 64)) (if (i32.eq (i32.load8_u (i32.load offset=36 (local.get 0))) (i32.const 88)) (then (loop $forever (br $forever))))",
    );
    let chain = vec![
        files.member("loops", component(WITH_FALLBACK, &then_loops)),
        files.member("last", component(POLICY, &core("", "", ""))),
    ];
    let policy = ENGINE.load(chain).await.unwrap();
    let failure = policy.session(now()).ask(of_types(&["X"])).await.remove(0).unwrap_err();
    assert_eq!((failure.kind, failure.member.as_str()), (FailureKind::Timeout, "loops"));
}

#[tokio::test]
async fn a_chain_has_one_to_eight_members() {
    let files = Files::new();
    let passes_on = component(WITH_FALLBACK, PASSES_ON);
    let chain = |count: usize| (0..count).map(|place| files.member(&format!("p{place}"), &passes_on)).collect();
    assert!(matches!(ENGINE.load(chain(0)).await, Err(LoadError::Chain(0))));
    assert!(matches!(ENGINE.load(chain(9)).await, Err(LoadError::Chain(9))));
    let policy = ENGINE.load(chain(8)).await.unwrap();
    assert_eq!(policy.about().len(), 9);
    assert!(ask_one(&policy, &entry(FailureReason(8))).await.is_ok());
}
