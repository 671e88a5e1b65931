//! `policy check`, `policy inspect` and `policy eval`, and scans with a policy from a file.

use serde_json::{Value, json};

use super::shop::{LATER, Shop, id, letter};
use crate::harness::{Program, Run};
use crate::policy::guests::{self, POLICY, component, core, hostile};

const MATRIX: &str = "builtin:default-matrix";

/// Runs `policy` with a guest, an entry and settings in its folder.
fn policy(arguments: &[&str]) -> Program {
    Program::new(&[&["policy"], arguments].concat())
        .file("guest.wasm", component(POLICY, &core("", "", "")))
        .file("entry.json", r#"{"failure_reason": "Throttled", "message_type": "OrderPlaced"}"#)
}

fn eval(entry: &str, more: &[&str]) -> Program {
    policy(&[&["eval", MATRIX, "--entry", "entry.json"], more].concat()).file("entry.json", entry)
}

fn is_digest(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn check_without_a_file_loads_what_is_configured_with_its_settings() {
    let check =
        |configuration: &str| policy(&["check", "--config", "r.toml", "--json"]).file("r.toml", configuration).run();
    let chain = check("[[policy.chain]]\npath = 'guest.wasm'\n[[policy.chain]]\npath = 'builtin:default-matrix'")
        .exits(0)
        .json();
    let names: Vec<&str> = chain["members"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["guest", "default-matrix"]);
    let told = check("[policy.settings]\nx = 1").exits(2).stderr;
    assert!(told.contains("settings of policy default-matrix") && told.contains('x'), "{told}");
    policy(&["check", "--settings", "s.json"]).file("s.json", "{}").run().exits(2);
}

#[test]
fn check_says_what_a_policy_is_and_what_it_was_held_to() {
    let checked = policy(&["check", "guest.wasm", "--json"]).run().exits(0).json();
    assert_eq!(keys(&checked), ["digest", "imports", "limits", "members", "memory_bytes", "name", "version", "world"]);
    assert_eq!((&checked["name"], &checked["world"]), (&json!("guest"), &json!("policy")));
    assert_eq!((&checked["version"], &checked["imports"]), (&json!("0.1.0"), &json!(["reprieve:policy/types@0.1.0"])));
    assert!(is_digest(&checked["digest"]));
    let limits = json!({
        "call_time_ms": 100, "start_time_ms": 5000, "memory_bytes": 67_108_864, "stack_bytes": 524_288,
        "instances": 64, "memories": 4, "tables": 8, "table_elements": 65_536, "name_chars": 200, "log_lines": 100,
        "log_bytes": 65_536,
    });
    assert_eq!(checked["limits"], limits);
    let member = &checked["members"][0];
    assert_eq!(keys(member), ["exports", "imports", "name", "origin", "sha256", "size", "world"]);
    assert_eq!(member["exports"], json!(["reprieve:policy/recovery@0.1.0"]));
    assert_eq!(member["origin"], "guest.wasm");
}

#[test]
fn check_holds_a_policy_to_the_configured_limits() {
    let check = policy(&["check", "guest.wasm", "--json"]);
    let checked = check.env("REPRIEVE_POLICY__LIMITS__CALL_TIME", "1700ms").run().exits(0).json();
    assert_eq!(checked["limits"]["call_time_ms"], 1700);
    let check = policy(&["check", "guest.wasm"]);
    let refused = check.env("REPRIEVE_POLICY__LIMITS__MEMORY_BYTES", "64KiB").run().exits(2);
    assert!(refused.stderr.contains("memory"), "{}", refused.stderr);
}

#[test]
fn inspect_says_what_a_file_is_without_running_it() {
    // It would be refused by a check: it traps on everything.
    let traps = core("", "", "").replace("(i32.const 64))", "unreachable)");
    let inspect = policy(&["inspect", "guest.wasm", "--json"]).file("guest.wasm", component(POLICY, &traps));
    let inspected = inspect.run().exits(0).json();
    assert_eq!(keys(&inspected), ["digest", "exports", "imports", "producers", "size", "version", "world"]);
    assert_eq!((&inspected["world"], &inspected["version"]), (&json!("policy"), &json!("0.1.0")));
    assert_eq!(inspected["exports"], json!(["reprieve:policy/recovery@0.1.0"]));
    assert!(is_digest(&inspected["digest"]) && inspected["size"].as_u64() > Some(100));
    let producer = &inspected["producers"][0];
    assert_eq!((keys(producer), &producer["name"]), (vec!["field", "name", "version"], &json!("wit-component")));
}

#[test]
fn eval_prints_the_answers_and_the_decision_and_nothing_else() {
    let evaluated = eval(r#"{"failure_reason": 8}"#, &[]).run().exits(0);
    let expected = json!({
        "should_recover": true,
        "policy": {
            "name": "AggressiveRetry", "max_recovery_attempts": 3, "cooldown_ms": 1_800_000,
            "hold_for_review_after_exhaustion": false, "delay_first_attempt": false,
        },
        "stream_mode": "per-message",
        "decision": "recover",
    });
    assert_eq!((evaluated.json(), evaluated.stderr.as_str()), (expected, ""));
}

#[test]
fn eval_tells_for_a_wait_until_when() {
    let entry = r#"{"failure_reason": "MaxAttemptsExceeded", "dead_lettered_at": "2026-01-01T00:00:00Z"}"#;
    let at = |now: &str| eval(entry, &["--now", now]).run().exits(0).json();
    let waits = at("2026-01-01T05:59:59Z");
    assert_eq!((&waits["decision"], &waits["not_before"]), (&json!("wait"), &json!("2026-01-01T06:00:00Z")));
    let due = at("2026-01-01T07:00:00+01:00");
    assert_eq!((&due["decision"], due.get("not_before")), (&json!("recover"), None));
}

#[test]
fn eval_asks_all_three_questions_whatever_is_decided() {
    let stream = "01900000-0000-7000-a000-000000000001";
    for (entry, decision) in [
        (json!({"failure_reason": "Throttled", "recovery_status": "HoldForReview"}), "skip"),
        (json!({"failure_reason": "Throttled", "recovery_attempts": 3}), "permanently-fail"),
        (json!({"failure_reason": "ValidationError"}), "hold"),
    ] {
        let mut entry = entry;
        entry["stream_id"] = json!(stream);
        let evaluated = eval(&entry.to_string(), &[]).run().exits(0).json();
        assert_eq!((&evaluated["decision"], &evaluated["stream_mode"]), (&json!(decision), &json!("tail-aware")));
        assert!(evaluated["policy"]["name"].is_string());
    }
}

#[test]
fn settings_count_and_wrong_ones_are_refused_with_their_path() {
    let settings = |text: &str| {
        eval(r#"{"failure_reason": 8}"#, &["--settings", "settings.json"]).file("settings.json", text).run()
    };
    let evaluated = settings(r#"{"policy_by_reason": {"Throttled": {"cooldown": "10m"}}}"#).exits(0).json();
    assert_eq!(evaluated["policy"]["cooldown_ms"], 600_000);
    for (text, expected) in [
        (r#"{"policy_by_reason": {"Throttled": {"cooldown": "soon"}}}"#, "policy_by_reason.Throttled.cooldown: "),
        (r#"{"policy_by_reason": {"Tired": {}}}"#, "policy_by_reason.Tired: "),
        (r#"{"by_reason": {}}"#, "by_reason: unknown field"),
        ("[]", "settings.json: not a JSON object"),
        ("{", "settings.json: no valid JSON: "),
    ] {
        let refused = settings(text).exits(2);
        assert!(refused.stderr.contains(expected) && refused.stdout.is_empty(), "{text}: {refused:?}");
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_refused_with_its_field() {
    for (entry, expected) in [
        (r#"{"failure_reason": "Tired"}"#, "failure_reason \"Tired\""),
        (r#"{"message_type": "OrderPlaced"}"#, "failure_reason is required"),
        (r#"{"failure_reason": 8, "mesage_type": "x"}"#, "did you mean message_type?"),
        (r#"{"failure_reason": 8, "recovery_attempts": -1}"#, "recovery_attempts -1"),
        (r#"{"failure_reason": 8"#, "broken JSON"),
        ("[]", "a JSON object is expected"),
        ("", "a JSON object is expected"),
    ] {
        let refused = eval(entry, &[]).run().exits(2);
        assert!(refused.stderr.contains(expected) && refused.stderr.contains("entry.json"), "{}", refused.stderr);
    }
    let missing = policy(&["eval", MATRIX, "--entry", "gone.json"]).run().exits(2);
    assert!(missing.stderr.contains("gone.json"), "{}", missing.stderr);
}

#[test]
fn a_file_that_is_no_policy_is_refused_by_what_it_is() {
    let module = wat::parse_str("(module)").unwrap();
    let stranger = r#"(module (func (export "answer") (result i32) (i32.const 7)))"#;
    let stranger = component("reprieve:tests/stranger", stranger);
    let version = guests::component_of_version(POLICY, &core("", "", ""), "0.2.0");
    for command in [&["check"][..], &["inspect"], &["eval", "--entry", "entry.json"]] {
        for (bytes, expected) in [
            (&b""[..], "an empty file"),
            (b"policy = 1", "text"),
            (&module, "a core module"),
            (&stranger, "of another world"),
            (&version, "0.2.0"),
        ] {
            let run = policy(&[command, &["guest.wasm"]].concat()).file("guest.wasm", bytes).run().exits(2);
            assert!(run.stderr.contains(expected) && run.stderr.contains("guest.wasm"), "{}", run.stderr);
            assert_eq!(run.stdout, "");
        }
        let missing = policy(&[command, &["gone.wasm"]].concat()).run().exits(2);
        assert!(missing.stderr.contains("gone.wasm"), "{}", missing.stderr);
    }
}

#[test]
fn a_policy_that_fails_on_the_entry_did_not_hold_and_says_how() {
    for (on_x, expected) in [
        ("unreachable", "policy guest failed (trap)"),
        ("(loop $forever (br $forever))", "policy guest failed (timeout)"),
        ("(drop (memory.grow (i32.const 10000)))", "policy guest failed (out-of-memory)"),
        ("(i32.store (i32.const 132) (i32.const 0)) (return (i32.const 128))", "policy guest failed (invalid-answer)"),
    ] {
        let guest = hostile(on_x);
        policy(&["check", "guest.wasm"]).file("guest.wasm", &guest).run().exits(0);
        let eval = policy(&["eval", "guest.wasm", "--entry", "entry.json"]).file("guest.wasm", &guest);
        let run = eval.file("entry.json", r#"{"failure_reason": 8, "message_type": "X"}"#).run().exits(1);
        assert!(run.stderr.contains(expected) && run.stdout.is_empty(), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_scan_with_a_policy_that_fails_on_some_rows_decides_the_others() {
    let shop = Shop::with(&[letter(1, json!({"message_type": "X"})), letter(2, json!({}))]);
    std::fs::write(shop.path().join("guest.wasm"), hostile("unreachable")).unwrap();
    let scan = ["scan", "--policy", "guest.wasm", "--json", "--now", LATER];
    let counts = shop.run(&scan).exits(0).json();
    assert_eq!(
        (&counts["recovered"], &counts["deferred"], &counts["policy_errors"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let bad = shop.show(&id(1));
    assert_eq!((&bad["deferral"], &bad["next_recovery_at"]), (&json!("policy-error"), &json!("2026-01-01T01:01:00Z")));
}

#[test]
fn a_scan_with_a_policy_that_fails_on_everything_counts_nothing() {
    let shop = Shop::with(&[letter(1, json!({})), letter(2, json!({}))]);
    // It starts at the time of the check, which is now, and not at the scan's.
    let imports = r#"(import "reprieve:policy/host@0.1.0" "now" (func $now (result i64)))"#;
    let bad_time = LATER.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let start = format!("(func $s (if (i64.eq (call $now) (i64.const {bad_time})) (then unreachable))) (start $s)");
    std::fs::write(shop.path().join("guest.wasm"), component(POLICY, &core(imports, &start, ""))).unwrap();
    let run: Run = shop.run(&["scan", "--policy", "guest.wasm", "--json", "--now", LATER]).exits(2);
    assert!(run.stderr.contains("guest") && run.stderr.contains("does not start"), "{}", run.stderr);
    for row in shop.run(&["list", "--json"]).json_lines() {
        assert_eq!((&row["recovery_status"], &row["policy_errors"]), (&json!("Pending"), &json!(0)));
    }
}
