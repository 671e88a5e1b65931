//! `policy test` and policies that remember what they were asked.

use serde_json::json;

use crate::harness::{Program, Run};
use crate::policy::guests::{POLICY, component, core};

/// Where the answer of get-policy is given, up to the next question.
const GET_POLICY: &str = "(i32.const 64))\n  (func (export \"reprieve:policy/recovery@0.1.0#get-stream-mode\"";

/// A policy that counts its calls in `$asked`, and runs `then` before it answers.
fn counting(then: &str) -> Vec<u8> {
    let plain = core("", "(global $asked (mut i32) (i32.const 0))", "");
    assert!(plain.contains(GET_POLICY), "the place is found");
    let count = "(global.set $asked (i32.add (global.get $asked) (i32.const 1)))";
    component(POLICY, &plain.replace(GET_POLICY, &format!("{count}{then}{GET_POLICY}")))
}

/// Each answer gives one attempt more than the one before.
fn always_more() -> Vec<u8> {
    counting("(i32.store (i32.const 72) (global.get $asked))")
}

fn tested(policy: &[u8], cases: impl Iterator<Item = String>) -> Run {
    let arguments = ["policy", "test", "counting.wasm", "cases.toml", "--json"];
    Program::new(&arguments).file("counting.wasm", policy).file("cases.toml", cases.collect::<String>()).run()
}

/// A case that expects nothing of what is counted.
fn case(n: usize, fields: &str) -> String {
    format!(
        "[[case]]\nname = 'case {n}'\nentry = {{ failure_reason = 8 }}\n{fields}\n\
         expect = {{ should_recover = true }}\n"
    )
}

fn with_a_time(n: usize) -> String {
    case(n, &format!("now = 2026-01-01T00:{:02}:{:02}Z", n / 60, n % 60))
}

#[track_caller]
fn assert_impure(run: Run, cases: usize) {
    let told = run.exits(1).json();
    assert_eq!((&told["cases"], &told["passed"]), (&json!(cases), &json!(0)), "{told}");
    for failure in told["failures"].as_array().unwrap() {
        assert_eq!(failure["key"], "the same answer in another order", "{told}");
    }
}

#[test]
fn a_policy_whose_answers_depend_on_what_was_asked_before_fails() {
    for cases in 1..=5 {
        let run = tested(&always_more(), (1..=cases).map(|n| case(n, "now = 2026-01-01T00:00:00Z"))).exits(1);
        assert!(run.stdout.contains("the same answer in another order"), "{cases} cases: {}", run.stdout);
    }
}

#[test]
fn a_policy_that_counts_its_calls_fails_where_each_case_has_a_time_of_its_own() {
    for cases in 1..=3 {
        assert_impure(tested(&always_more(), (1..=cases).map(with_a_time)), cases);
    }
}

#[test]
fn a_policy_that_counts_its_calls_fails_where_each_case_has_settings_of_its_own() {
    for cases in 1..=3 {
        let own = |n| case(n, &format!("now = 2026-01-01T00:00:00Z\nsettings = {{ n = {n} }}"));
        assert_impure(tested(&always_more(), (1..=cases).map(own)), cases);
    }
}

#[test]
fn a_policy_that_answers_otherwise_from_its_tenth_call_on_fails_with_a_single_case() {
    let then = "(if (i32.ge_u (global.get $asked) (i32.const 10)) (then (i32.store (i32.const 72) (i32.const 7))))";
    assert_impure(tested(&counting(then), (1..=1).map(with_a_time)), 1);
}

#[test]
fn settings_that_are_left_out_and_empty_ones_are_the_same_settings() {
    let settings = ["", "settings = {}"];
    let cases = settings.iter().zip(1..).map(|(own, n)| case(n, &format!("now = 2026-01-01T00:00:00Z\n{own}")));
    let told = tested(&always_more(), cases).exits(1).json();
    // The second case meets the instance that has answered for the first.
    let first_answers = told["failures"].as_array().unwrap().iter().map(|failure| &failure["expected"][0]["policy"]);
    let attempts: Vec<_> = first_answers.map(|policy| policy["max_recovery_attempts"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2], "{told}");
}

#[test]
fn a_case_without_settings_has_those_of_the_command_line_and_one_with_empty_settings_has_none() {
    let table = "[[case]]\nname = 'left out'\nentry = { failure_reason = 8 }\nexpect.policy.max_recovery_attempts = 9\n\
        [[case]]\nname = 'empty'\nentry = { failure_reason = 8 }\nsettings = {}\n\
        expect.policy.max_recovery_attempts = 3\n";
    let settings = json!({ "policy_by_reason": { "Throttled": { "max_recovery_attempts": 9 } } });
    let arguments = ["policy", "test", "builtin:default-matrix", "cases.toml", "--settings", "settings.json"];
    let program = Program::new(&arguments).file("cases.toml", table).file("settings.json", settings.to_string());
    program.run().exits(0);
}

#[test]
fn more_times_than_there_is_room_for_instances_are_tried_all_the_same() {
    let arguments = ["policy", "test", "builtin:default-matrix", "cases.toml", "--json"];
    let table = (1..=400).map(with_a_time).collect::<String>();
    assert_eq!(Program::new(&arguments).file("cases.toml", table).run().exits(0).json()["passed"], 400);
}
