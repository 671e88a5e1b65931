//! `policy test`: case tables, the golden one among them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Program, Run};
use crate::policy::example::{Language, built};

const MATRIX: &str = "builtin:default-matrix";

fn workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

fn golden() -> String {
    workspace("policies/default-matrix/cases.toml").display().to_string()
}

fn test(policy: &Path, cases: &str) -> Run {
    Program::new(&["policy", "test", policy.to_str().unwrap(), cases, "--json"]).run()
}

/// Tries the default matrix on a table.
fn tried(table: &str, more: &[&str]) -> Run {
    let arguments = [&["policy", "test", MATRIX, "cases.toml"], more].concat();
    Program::new(&arguments).file("cases.toml", table).run()
}

#[test]
fn the_golden_table_is_passed_by_the_default_matrix_and_by_the_example_in_each_language() {
    let policies = Language::ALL.map(Language::component);
    for policy in [PathBuf::from(MATRIX)].iter().chain(&policies) {
        let tested = test(policy, &golden()).exits(0).json();
        assert!(tested["cases"].as_u64().unwrap() >= 37 && tested["passed"] == tested["cases"], "{tested}");
    }
}

#[test]
fn the_examples_own_table_is_passed_in_each_language_and_failed_by_the_default_matrix() {
    let cases = workspace("examples/policies/cases.toml").display().to_string();
    for language in Language::ALL {
        test(&language.component(), &cases).exits(0);
    }
    let failed = test(Path::new(MATRIX), &cases).exits(1).json();
    let names: Vec<&str> =
        failed["failures"].as_array().unwrap().iter().map(|failure| failure["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"an inventory adjustment has a rule of its own, whatever the reason"), "{names:?}");
    assert!(!names.contains(&"any other message is left to the default matrix"), "{names:?}");
}

#[test]
fn each_further_example_passes_its_table_and_the_default_matrix_does_not() {
    for name in ["business-hours", "tenant-allow-list", "exponential-cooldown", "hold-fingerprint", "poison-loop"] {
        let cases = workspace(&format!("examples/policies/{name}/cases.toml")).display().to_string();
        test(&built(name), &cases).exits(0);
        test(Path::new(MATRIX), &cases).exits(1);
    }
}

#[test]
fn further_examples_refuse_settings_that_they_do_not_take_and_say_where() {
    let refused = [
        ("business-hours", r#"{"open": "8"}"#, "open"),
        ("business-hours", r#"{"days": ["Mon", "Someday"]}"#, "days"),
        ("tenant-allow-list", r#"{"tenants": "acme"}"#, "tenants"),
        ("hold-fingerprint", r#"{"fingerprint": "3f2a"}"#, "fingerprint"),
        ("poison-loop", r#"{"max_deaths": 0}"#, "max_deaths"),
    ];
    for (name, settings, key) in refused {
        let file = built(name);
        let check = Program::new(&["policy", "check", file.to_str().unwrap(), "--settings", "settings.json"]);
        let run = check.file("settings.json", settings).run().exits(2);
        assert!(run.stderr.contains(&format!("{key}:")), "{}", run.stderr);
    }
}

#[test]
fn what_settings_change_stands_in_a_table_too() {
    test(Path::new(MATRIX), workspace("policies/default-matrix/settings.toml").to_str().unwrap()).exits(0);
}

/// Each number and switch of each row of the matrix, changed alone.
fn mutations() -> Vec<Value> {
    let rows: [(&str, &str, u32, &str, bool, bool); 11] = [
        ("Throttled", "AggressiveRetry", 3, "30m", false, false),
        ("TransportException", "MediumRetry", 3, "1h", false, false),
        ("LeaseExpired", "AggressiveRetry", 5, "0", false, false),
        ("MaxAttemptsExceeded", "ConservativeRetry", 1, "6h", true, true),
        ("EventStorageFailure", "HoldForReview", 0, "0", true, false),
        ("ValidationError", "HoldForReview", 0, "0", true, false),
        ("SerializationError", "HoldForReview", 0, "0", true, false),
        ("TransportNotReady", "MediumRetry", 3, "30m", false, false),
        ("BrokerDeadLetter", "MediumRetry", 3, "1h", true, false),
        ("PoisonRedeliveryLoop", "HoldForReview", 0, "0", true, false),
        ("Unknown", "OneShotThenHold", 1, "1h", true, false),
    ];
    let mutated = |(reason, name, attempts, cooldown, holds, delays): (&str, &str, u32, &str, bool, bool)| {
        [
            ("name", json!(format!("{name}d"))),
            ("max_recovery_attempts", json!(attempts + 1)),
            ("cooldown", json!(if cooldown == "0" { "1s" } else { "29m" })),
            ("hold_for_review_after_exhaustion", json!(!holds)),
            ("delay_first_attempt", json!(!delays)),
        ]
        .map(|(key, value)| json!({ "policy_by_reason": { reason: { key: value } } }))
    };
    rows.into_iter().flat_map(mutated).collect()
}

#[test]
fn each_single_change_of_the_matrix_fails_the_golden_table() {
    for settings in mutations() {
        let arguments = ["policy", "test", MATRIX, &golden(), "--settings", "settings.json"];
        let run = Program::new(&arguments).file("settings.json", settings.to_string()).run();
        assert_eq!(run.code, 1, "{settings} went unnoticed: {run:?}");
    }
}

#[test]
fn a_failure_is_told_with_its_place_and_what_was_expected_and_got() {
    let table = "[[case]]\nname = 'good'\nentry = { failure_reason = 'Throttled' }\nexpect = { decision = 'recover' }\n\n\
        [[case]]\nname = 'bad'\nentry = { failure_reason = 'Throttled' }\n\
        expect = { decision = 'hold', policy = { cooldown = '1800s', max_recovery_attempts = 4 } }\n";
    let text = tried(table, &[]).exits(1).stdout;
    assert!(text.contains("cases.toml:6 bad\n  decision: expected \"hold\", got \"recover\""), "{text}");
    assert!(text.contains("2 cases: 1 passed, 1 failed"), "{text}");
    let told = tried(table, &["--json"]).exits(1).json();
    let expected = json!([
        { "name": "bad", "line": 6, "key": "decision", "expected": "hold", "got": "recover" },
        { "name": "bad", "line": 6, "key": "policy.max_recovery_attempts", "expected": 4, "got": 3 },
    ]);
    assert_eq!((&told["failures"], &told["cases"], &told["passed"]), (&expected, &json!(2), &json!(1)));
    tried(table, &["--filter", "GOOD"]).exits(0);
    let none = tried(table, &["--filter", "neither"]).exits(1);
    assert!(none.stdout.contains("no case was tried"), "{}", none.stdout);
    tried("", &[]).exits(1);
}

#[test]
fn a_timeline_is_lived_as_the_worker_would() {
    let table = "[[case]]\nname = 'budget'\nentry = { failure_reason = 'TransportException' }\n\
        now = 2026-01-01T00:00:00Z\n\
        [[case.step]]\nexpect.decision = 'recover'\n\
        [[case.step]]\nattempt = 'fails'\nexpect = { decision = 'wait', not_before = '2026-01-01T01:00:00Z' }\n\
        [[case.step]]\nafter = '1h'\nexpect.decision = 'recover'\n\
        [[case.step]]\nattempt = 'fails'\nexpect = { decision = 'wait', not_before = '2026-01-01T03:00:00Z' }\n\
        [[case.step]]\nafter = '2h'\nexpect.decision = 'recover'\n\
        [[case.step]]\nattempt = 'dies-again'\nafter = '1h'\nexpect.decision = 'permanently-fail'\n\
        [[case.step]]\nafter = '10h'\nexpect.decision = 'permanently-fail'\n\
        [[case.step]]\nretry = true\nexpect.decision = 'recover'\n";
    tried(table, &[]).exits(0);
    let late = table.replace("T03:00:00Z", "T03:00:01Z");
    let failed = tried(&late, &["--json"]).exits(1).json();
    let failure = json!({
        "name": "budget", "line": 13, "step": 4, "key": "not_before",
        "expected": "2026-01-01T03:00:01Z", "got": "2026-01-01T03:00:00Z",
    });
    assert_eq!(failed["failures"], json!([failure]));
    let unmade = "[[case]]\nname = 'a'\nentry = { failure_reason = 'ValidationError' }\n[[case.step]]\n\
        expect.decision = 'hold'\n[[case.step]]\nattempt = 'fails'\nexpect.decision = 'hold'\n";
    let failed = tried(unmade, &[]).exits(1).stdout;
    assert!(failed.contains("attempt: expected \"made\", got \"no attempt in the step before\""), "{failed}");
}

#[test]
fn settings_that_the_policy_refuses_fail_their_case_alone() {
    let table = "[[case]]\nname = 'refused'\nentry = { failure_reason = 'Throttled' }\n\
        settings = { policy_by_reason = { Tired = {} } }\nexpect = { decision = 'recover' }\n\
        [[case]]\nname = 'other'\nentry = { failure_reason = 'Throttled' }\nexpect = { decision = 'recover' }\n";
    let told = tried(table, &["--json"]).exits(1).json();
    assert_eq!(told["passed"], 1);
    let got = told["failures"][0]["got"].as_str().unwrap();
    assert!(got.contains("policy_by_reason.Tired"), "{got}");
}

#[test]
fn a_table_that_is_none_is_refused_with_line_and_key() {
    let case = |rest: &str| format!("[[case]]\nname = 'a'\n{rest}\n");
    let entry = "entry = { failure_reason = 'Throttled' }\n";
    for (table, expected) in [
        (
            case("entry = { failure_reason = 'Thottled' }\nexpect = { decision = 'hold' }"),
            "line 3: case[0].entry.failure_reason",
        ),
        (
            case("entry = { failure_reason = 8, colour = 1 }\nexpect = { decision = 'hold' }"),
            "line 3: case[0].entry.colour",
        ),
        (
            case("entry = { failure_reason = 8, recovery_attempts = -1 }\nexpect = { decision = 'hold' }"),
            "line 3: case[0].entry.recovery_attempts -1",
        ),
        (
            case(&format!("{entry}expect = {{ decison = 'hold' }}")),
            "line 4: case[0].expect.decison is an unknown key; did you mean decision?",
        ),
        (
            case(&format!("{entry}expect = {{ decision = 'retry' }}")),
            "line 4: case[0].expect.decision \"retry\" is none of recover",
        ),
        (case(&format!("{entry}expect = {{}}")), "line 4: case[0].expect expects nothing"),
        (case(&format!("{entry}expcet = {{}}")), "line 4: case[0].expcet is an unknown key; did you mean expect?"),
        (case(&format!("{entry}now = '2026-01-01T00:00:00'\nexpect = {{ decision = 'hold' }}")), "line 4: case[0].now"),
        (case(entry), "line 1: case[0] expects nothing"),
        (
            case(&format!("{entry}[[case.step]]\nafter = '1x'\nexpect.decision = 'hold'")),
            "line 5: case[0].step[0].after",
        ),
        ("[[case]]\nname = 'a'\nentry = {".to_owned(), "no valid TOML: line 3"),
        ("[cases]\n".to_owned(), "line 1: cases is unknown"),
    ] {
        let refused = tried(&table, &[]).exits(2);
        assert!(refused.stderr.contains(expected) && refused.stdout.is_empty(), "{table}: {}", refused.stderr);
    }
    let gone = Program::new(&["policy", "test", MATRIX, "gone.toml"]).run().exits(2);
    assert!(gone.stderr.contains("gone.toml"), "{}", gone.stderr);
}

#[test]
fn a_file_of_settings_that_is_named_is_one_also_where_each_case_has_its_own() {
    let table =
        "[[case]]\nname = 'a'\nsettings = {}\nentry = { failure_reason = 8 }\nexpect = { decision = 'recover' }\n";
    tried(table, &[]).exits(0);
    let told = tried(table, &["--settings", "gone.json"]).exits(2).stderr;
    assert!(told.contains("gone.json"), "{told}");
}

#[test]
fn an_entry_or_a_table_without_end_is_refused_at_its_limit() {
    for arguments in
        [["policy", "test", MATRIX, "/dev/zero"].as_slice(), &["policy", "eval", MATRIX, "--entry", "/dev/zero"]]
    {
        let told = Program::new(arguments).run().exits(2).stderr;
        assert!(told.contains("/dev/zero is larger than 16 MiB"), "{told}");
    }
}

#[test]
fn a_case_on_which_the_policy_fails_fails_and_the_others_are_tried() {
    let table = "[[case]]\nname = 'traps'\nentry = { failure_reason = 8, message_type = 'X' }\nexpect = { decision = 'recover' }\n\
        [[case]]\nname = 'answers'\nentry = { failure_reason = 8 }\nexpect = { decision = 'recover' }\n";
    let run = Program::new(&["policy", "test", "guest.wasm", "cases.toml", "--json"])
        .file("guest.wasm", crate::policy::guests::hostile("unreachable"))
        .file("cases.toml", table)
        .run()
        .exits(1)
        .json();
    assert_eq!((&run["passed"], &run["failures"][0]["name"]), (&json!(1), &json!("traps")));
    assert!(run["failures"][0]["got"].as_str().unwrap().contains("trap"), "{run}");
}
