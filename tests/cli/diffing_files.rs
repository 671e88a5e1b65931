//! `policy diff` over a file and a case table, and what it makes of nonsense.

use serde_json::json;

use super::diffing::{MATRIX, PATIENT, STRICT, arguments, counts};
use super::shop::{LATER, Shop, letter, lines};
use crate::harness::{Program, Run};
use crate::policy::guests::{POLICY, component, core};

/// Compares over files, without any store.
fn diff_files(settings: &str, more: &[&str], files: &[(&str, &str)]) -> Run {
    let program = Program::new(&arguments(more)).file("new.json", settings);
    files.iter().fold(program, |program, (name, text)| program.file(name, text)).run()
}

#[test]
fn dead_letters_are_compared_from_a_file_and_from_standard_input() {
    let letters =
        [letter(1, json!({})), json!({"failure_reason": "Throttled"}), letter(3, json!({"failure_reason": 3}))];
    let text = lines(&letters);
    let report = diff_files(STRICT, &["--entries", "rows.jsonl"], &[("rows.jsonl", &text)]).exits(1).json();
    assert_eq!((counts(&report), &report["over"]), ([3, 2, 2, 0, 0], &json!({"entries": "rows.jsonl"})));
    let mut examples: Vec<&str> =
        report["groups"].as_array().unwrap().iter().map(|group| group["examples"][0].as_str().unwrap()).collect();
    examples.sort_unstable();
    assert_eq!(examples, ["line 1", "line 2"]);
    let piped =
        Program::new(&arguments(&["--entries", "-"])).file("new.json", STRICT).stdin(text).run().exits(1).json();
    assert_eq!(counts(&piped), counts(&report));
}

#[test]
fn what_list_prints_can_be_compared() {
    let shop = Shop::with(&(1..=300).map(|n| letter(n, json!({}))).collect::<Vec<_>>());
    let listed = shop.run(&["list", "--json", "--limit", "1000"]).exits(0).stdout;
    let run = shop.program(&["policy", "diff", MATRIX, MATRIX, "--entries", "-", "--json"]).stdin(listed).run();
    assert_eq!(counts(&run.exits(0).json()), [300, 0, 0, 0, 0]);
}

#[test]
fn bad_lines_are_told_with_number_and_field_and_nothing_is_compared() {
    let text = format!(
        "{}\n{{\"failure_reason\": \"Tired\"}}\n{{\"failure_reason\": 8, \"recovery_attempts\": -1}}\n\
        {{\"failure_reason\": 8, \"dead_lettered_at\": \"2026-01-01T00:00:00\"}}\nnonsense\n",
        letter(1, json!({}))
    );
    let refused = diff_files(STRICT, &["--entries", "rows.jsonl"], &[("rows.jsonl", &text)]).exits(2);
    assert_eq!(refused.stdout, "");
    for part in [
        "rows.jsonl: nothing is compared: 4 lines are bad",
        "line 2: failure_reason \"Tired\"",
        "line 3: recovery_attempts -1",
        "line 4: dead_lettered_at \"2026-01-01T00:00:00\" is no time with a zone",
        "line 5: a JSON object is expected",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let many = "{}\n".repeat(13);
    let refused = diff_files(STRICT, &["--entries", "rows.jsonl"], &[("rows.jsonl", &many)]).exits(2);
    assert!(refused.stderr.contains("line 10: ") && refused.stderr.contains("and 3 more"), "{}", refused.stderr);
}

const TABLE: &str = "[[case]]\nname = 'throttled'\nentry = { failure_reason = 'Throttled' }\nexpect.decision = 'hold'\n\
    [[case]]\nname = 'other'\nentry = { failure_reason = 'Unknown' }\nexpect.decision = 'hold'\n\
    [[case]]\nname = 'story'\nentry = { failure_reason = 'Throttled' }\nnow = 2026-01-01T00:00:00Z\n\
    [[case.step]]\nexpect.decision = 'recover'\n\
    [[case.step]]\nattempt = 'fails'\nafter = '1h'\nexpect.decision = 'recover'\n";

#[test]
fn cases_are_compared_whatever_they_expect_and_a_timeline_up_to_where_it_parts() {
    let report = diff_files(PATIENT, &["--cases", "cases.toml"], &[("cases.toml", TABLE)]).exits(1).json();
    assert_eq!(counts(&report), [3, 2, 0, 0, 2]);
    assert_eq!(report["groups"][0]["examples"], json!(["throttled", "story, step 1"]));
    let quick = r#"{"policy_by_reason": {"Throttled": {"cooldown": "30m", "max_recovery_attempts": 1}}}"#;
    let table = TABLE.replace("'Throttled' }\nnow", "'Throttled', recovery_attempts = 1 }\nnow");
    let report = diff_files(quick, &["--cases", "cases.toml"], &[("cases.toml", &table)]).exits(1).json();
    assert_eq!(
        (&report["groups"][0]["from"], &report["groups"][0]["to"]),
        (&json!("recover"), &json!("permanently-fail"))
    );
    diff_files("{}", &["--cases", "cases.toml"], &[("cases.toml", TABLE)]).exits(0);
}

#[test]
fn a_cases_settings_count_for_both_and_who_refuses_them_fails_on_it() {
    let table = "[[case]]\nname = 'a'\nentry = { failure_reason = 8 }\nsettings = { policy_by_reason = { Tired = {} } }\n\
        expect.decision = 'hold'\n";
    let program = |old: &str, new: &str| {
        Program::new(&["policy", "diff", old, new, "--cases", "cases.toml", "--json"])
            .file("cases.toml", table)
            .file("guest.wasm", component(POLICY, &core("", "", "")))
            .run()
    };
    assert_eq!(counts(&program(MATRIX, MATRIX).exits(0).json()), [1, 0, 0, 0, 0]);
    let report = program(MATRIX, "guest.wasm").exits(1).json();
    assert_eq!((&report["groups"][0]["from"], &report["groups"][0]["to"]), (&json!("fails"), &json!("recover")));
    assert!(report["groups"][0]["old"]["failure"].as_str().unwrap().contains("Tired"), "{report}");
}

#[test]
fn nonsense_is_answered_with_its_place_and_what_was_expected() {
    let stranger =
        component("reprieve:tests/stranger", r#"(module (func (export "answer") (result i32) (i32.const 7)))"#);
    let run = |arguments: &[&str]| {
        Program::new(&[&["policy", "diff"], arguments].concat())
            .file("empty", "")
            .file("stranger.wasm", &stranger)
            .file("cases.toml", TABLE)
            .file("broken.toml", "[[case]]\nname = 'a'\nentry = {")
            .file("negative.toml", TABLE.replace("'Unknown'", "'Unknown', recovery_attempts = -1"))
            .file("zoneless.toml", TABLE.replace("00:00:00Z", "00:00:00"))
            .file("wrong.toml", "[policy_by_reason.Tired]\n")
            .run()
            .exits(2)
    };
    for (arguments, expected) in [
        (
            &["empty", MATRIX, "--cases", "cases.toml"][..],
            "policy empty is not a WebAssembly component but an empty file",
        ),
        (&[MATRIX, "stranger.wasm", "--cases", "cases.toml"], "of another world"),
        (&[MATRIX, "gone.wasm", "--cases", "cases.toml"], "cannot read policy gone.wasm"),
        (&[MATRIX, MATRIX, "--cases", "broken.toml"], "broken.toml is no valid TOML: line 3"),
        (
            &[MATRIX, MATRIX, "--cases", "negative.toml"],
            "negative.toml, line 7: case[1].entry.recovery_attempts -1 is no whole number",
        ),
        (&[MATRIX, MATRIX, "--cases", "zoneless.toml"], "zoneless.toml, line 12: case[2].now"),
        (&[MATRIX, MATRIX, "--cases", "gone.toml"], "cannot read gone.toml"),
        (&[MATRIX, MATRIX, "--entries", "gone.jsonl"], "cannot read gone.jsonl"),
        (&[MATRIX, MATRIX, "--new-settings", "wrong.toml"], "policy_by_reason.Tired"),
        (&[MATRIX, MATRIX, "--old-settings", "empty"], "empty: no valid JSON"),
        (&[MATRIX, MATRIX, "--since", "2026-01-01T00:00:00"], "expected a time with its zone"),
        (&[MATRIX, MATRIX, "--now", "-1"], "expected a time with its zone"),
        (&[MATRIX, MATRIX, "--status", "held"], "HoldForReview"),
        (&[MATRIX, MATRIX, "--status", "-1"], "0 to 4"),
        (&[MATRIX, MATRIX, "--cases", "cases.toml", "--entries", "empty"], "cannot be used with"),
        (&[MATRIX, MATRIX, "--cases", "cases.toml", "--recorded"], "cannot be used with"),
        (&[MATRIX, MATRIX, "--recorded", "--now", LATER], "cannot be used with"),
        (
            &[MATRIX, MATRIX, "--cases", "cases.toml", "--store", "sqlite://x.db"],
            "leave out --store, --cases or --entries",
        ),
        (&[MATRIX, "--cases", "cases.toml"], "name OLD and NEW"),
        (&[MATRIX], "name OLD and NEW"),
        (&["--cases", "cases.toml"], "OLD"),
    ] {
        let refused = run(arguments);
        assert!(refused.stderr.contains(expected) && refused.stdout.is_empty(), "{arguments:?}: {}", refused.stderr);
    }
}
