//! The same entry gets the same answer.

use std::sync::Arc;

use reprieve::model::FailureReason;
use reprieve::model::view::PolicyView;

use super::guests::{component, core, hostile};
use super::{ENGINE, builtin, entry, load_bytes, now, of_types};

#[tokio::test]
async fn sessions_run_side_by_side_and_agree() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    let entries: Arc<Vec<_>> = Arc::new(FailureReason::named().map(entry).collect());
    let ask = |_| {
        let (policy, entries) = (policy.clone(), Arc::clone(&entries));
        tokio::spawn(async move { policy.session(now()).ask(entries.iter().map(PolicyView::of).collect()).await })
    };
    let asked: Vec<_> = (0..8).map(ask).collect();
    let mut answers = Vec::new();
    for session in asked {
        answers.push(session.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[tokio::test]
async fn more_sessions_than_the_pool_has_room_for_wait_for_it() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    let ask = |_| {
        let policy = policy.clone();
        tokio::spawn(async move { policy.session(now()).ask(of_types(&["A", "B"])).await })
    };
    for session in (0..400).map(ask).collect::<Vec<_>>() {
        assert!(session.await.unwrap().iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn a_session_whose_question_was_dropped_answers_the_next() {
    let policy = load_bytes(hostile("(loop $forever (br $forever))")).await.unwrap();
    let mut session = policy.session(now());
    {
        let dropped = session.ask(of_types(&["X"]));
        let mut dropped = std::pin::pin!(dropped);
        let waker = std::task::Waker::noop();
        assert!(dropped.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    assert!(session.ask(of_types(&["Good"])).await[0].is_ok());
}

#[tokio::test]
async fn the_probe_that_was_passed_at_load_can_be_repeated() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    assert_eq!(policy.probe(now()).await, Ok(()));
    assert!(policy.sample_memory_bytes() >= 64 << 10);
}

#[tokio::test]
async fn random_numbers_depend_on_the_entry_alone() {
    let imports = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))"#;
    // The cooldown of the second answer is the third random number of an entry.
    let on_x = "(drop (call $random)) (drop (call $random))
        (i64.store (i32.const 144) (call $random)) (return (i32.const 128))";
    let policy = load_bytes(component("reprieve:tests/gambler", &core(imports, "", on_x))).await.unwrap();
    let answers = policy.session(now()).ask(of_types(&["X", "Good", "X", "X"])).await;
    let cooldown = |at: usize| answers[at].as_ref().unwrap().policy.cooldown;
    assert_ne!(cooldown(0), cooldown(1));
    assert_eq!((cooldown(2), cooldown(3)), (cooldown(0), cooldown(0)));
}

#[tokio::test]
async fn an_isolated_session_asks_about_each_entry_in_a_fresh_instance() {
    // Counts its calls in the cooldown of the second answer.
    let on_x = "(i64.store (i32.const 144) (i64.add (i64.load (i32.const 144)) (i64.const 1)))
        (return (i32.const 128))";
    let policy = load_bytes(hostile(on_x)).await.unwrap();
    let cooldowns = |answers: Vec<Result<reprieve::model::Answers, _>>| -> Vec<_> {
        answers
            .into_iter()
            .map(|answer: Result<_, reprieve::policy::PolicyFailure>| answer.unwrap().policy.cooldown)
            .collect()
    };
    let reused = cooldowns(policy.session(now()).ask(of_types(&["X", "X"])).await);
    let isolated = cooldowns(policy.session(now()).isolated().ask(of_types(&["X", "X"])).await);
    assert_ne!(reused[0], reused[1]);
    assert_eq!(isolated, [reused[0], reused[0]]);
}
