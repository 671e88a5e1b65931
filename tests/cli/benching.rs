//! `policy bench`.

use serde_json::Value;

use crate::harness::Program;
use crate::policy::guests::{POLICY, component, core, hostile};

fn bench(arguments: &[&str]) -> Program {
    Program::new(&[&["policy", "bench"], arguments].concat()).file("guest.wasm", component(POLICY, &core("", "", "")))
}

const TIMES: [&str; 7] = [
    "cold_load_ns",
    "instantiate_p50_ns",
    "instantiate_p99_ns",
    "cold_call_p50_ns",
    "cold_call_p99_ns",
    "call_p50_ns",
    "call_p99_ns",
];

#[test]
fn a_policy_is_measured_beside_the_default_matrix() {
    let run = bench(&["guest.wasm", "--time", "20ms", "--json"]).run().exits(0);
    let benched = run.json();
    assert_eq!((benched["entries"].as_u64(), run.stderr.as_str()), (Some(20), ""));
    for (measured, name) in [("policy", "guest"), ("default_matrix", "default-matrix")] {
        let costs = &benched[measured];
        let number = |key: &str| costs[key].as_u64().unwrap_or_else(|| panic!("{key}: {costs}"));
        assert_eq!(costs["name"], name);
        assert!(TIMES.iter().all(|key| number(key) > 0), "{costs}");
        assert!(number("call_p50_ns") <= number("call_p99_ns"), "{costs}");
        assert!(number("instantiate_p50_ns") <= number("cold_call_p50_ns"), "{costs}");
        assert!(number("cold_calls") >= 5 && number("calls") >= 5, "{costs}");
        assert!(number("memory_bytes") >= 64 << 10 && number("size_bytes") > 100, "{costs}");
    }
}

#[test]
fn a_load_from_the_cache_is_measured_when_there_is_one() {
    let home = tempfile::tempdir().unwrap();
    let costs = |cache: &str| -> Value {
        let program = bench(&["guest.wasm", "--time", "1ms", "--json"]).env("XDG_CACHE_HOME", home.path());
        program.env("REPRIEVE_POLICY__CACHE_DIR", cache).run().exits(0).json()["policy"].clone()
    };
    assert!(costs("none")["cached_load_ns"].is_null());
    let folder = home.path().join("compiled");
    assert!(costs(folder.to_str().unwrap())["cached_load_ns"].as_u64() > Some(0));
    assert!(folder.is_dir());
}

#[test]
fn people_get_a_table_with_units() {
    let text = bench(&["guest.wasm", "--time", "1ms"]).run().exits(0).stdout;
    for part in ["guest", "DEFAULT MATRIX", "decision in a running instance, p99", "µs", "KiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

const CASES: &str =
    "[[case]]\nname = 'a'\nentry = { failure_reason = 8, message_type = 'X' }\nexpect.decision = 'hold'\n";

#[test]
fn the_entries_of_a_case_table_are_asked_about() {
    let program = bench(&["guest.wasm", "--cases", "cases.toml", "--time", "1ms", "--json"]);
    assert_eq!(program.file("cases.toml", CASES).run().exits(0).json()["entries"], 1);
}

#[test]
fn a_policy_that_fails_on_an_entry_did_not_hold_and_says_how() {
    let program = bench(&["bad.wasm", "--cases", "cases.toml", "--time", "1ms"]).file("cases.toml", CASES);
    let run = program.file("bad.wasm", hostile("unreachable")).run().exits(1);
    assert!(run.stderr.contains("policy bad failed (trap)") && run.stdout.is_empty(), "{run:?}");
    let run = bench(&["guest.wasm", "--cases", "none.toml"]).file("none.toml", "").run().exits(1);
    assert!(run.stderr.contains("no case"), "{}", run.stderr);
}

#[test]
fn nonsense_is_answered_with_its_place_and_what_was_expected() {
    let stranger =
        component("reprieve:tests/stranger", r#"(module (func (export "answer") (result i32) (i32.const 7)))"#);
    for (arguments, expected) in [
        (&["empty.wasm"][..], "policy empty.wasm is not a WebAssembly component but an empty file"),
        (&["stranger.wasm"], "of another world"),
        (&["gone.wasm"], "gone.wasm"),
        (&["guest.wasm", "--time", "soon"], "is no duration"),
        (&["guest.wasm", "--time=-1s"], "is negative"),
        (&["guest.wasm", "--time", "2h"], "up to 60 s"),
        (&["guest.wasm", "--cases", "broken.toml"], "broken.toml is no valid TOML: line 1"),
        (&["guest.wasm", "--settings", "empty.wasm"], "empty.wasm: no valid JSON"),
    ] {
        let program = bench(arguments).file("empty.wasm", "").file("stranger.wasm", &stranger);
        let refused = program.file("broken.toml", "[[case").run().exits(2);
        assert!(refused.stderr.contains(expected) && refused.stdout.is_empty(), "{arguments:?}: {}", refused.stderr);
    }
}
