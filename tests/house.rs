//! The invariants of the code map: who may import whom, and who may name which crate.

use std::fs;
use std::path::{Path, PathBuf};

/// Each module with the modules of this crate that it may name beside itself.
const IMPORTS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("config", &["model"]),
    ("store", &["model"]),
    ("policy", &["model"]),
    ("telemetry", &["model"]),
    ("recovery", &["model", "store", "policy", "telemetry"]),
    ("perspective", &["model", "store", "telemetry"]),
    ("http", &["model", "store", "telemetry"]),
    ("cli", &["model", "config", "store", "policy", "telemetry", "recovery", "perspective", "http"]),
];

/// Each crate that is fenced into one module.
const FENCED: &[(&str, &str)] = &[
    ("sqlx", "store"),
    ("wasmtime", "policy"),
    ("wasmtime_wasi", "policy"),
    ("wit_bindgen_c", "policy"),
    ("wit_bindgen_core", "policy"),
    ("wit_component", "policy"),
    ("axum", "http"),
    ("prometheus_client", "telemetry"),
    ("notify", "policy"),
    ("ureq", "cli"),
    ("sd_notify", "cli"),
    ("clap", "cli"),
    ("anyhow", "cli"),
    ("moka", "perspective"),
];

/// What the pure model does not name.
const IMPURE: &[&str] = &["tokio", "std::fs", "std::net", "std::env", "Timestamp::now", "SystemTime", "Instant"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The code lines of a module, each with its place.
fn code(module: &str) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut left = vec![sources().join(module), sources().join(module).with_extension("rs")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
            let text = fs::read_to_string(&path).unwrap();
            let numbered = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
            lines.extend(numbered.map(|(line, number)| (format!("{}:{number}", path.display()), line.to_owned())));
        }
    }
    assert!(!lines.is_empty(), "module {module} has code");
    lines
}

/// Whether a line names a path, as a whole word at its start.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || "_:\"".contains(c))
            && (path.ends_with(':') || !after.is_some_and(|c| c.is_alphanumeric() || c == '_'))
    })
}

#[test]
fn modules_import_each_other_one_way_only() {
    let mut wrong = Vec::new();
    for (module, may) in IMPORTS {
        for (place, line) in code(module) {
            for (other, _) in IMPORTS.iter().filter(|(other, _)| other != module && !may.contains(other)) {
                if names(&line, &format!("crate::{other}")) {
                    wrong.push(format!("{place}: {module} names {other}: {}", line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_stands_in_the_map() {
    let declared = fs::read_to_string(sources().join("lib.rs")).unwrap();
    let declared = declared.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    for module in declared {
        assert!(IMPORTS.iter().any(|(known, _)| *known == module), "module {module} is missing from the map");
    }
}

#[test]
fn a_fenced_crate_is_named_by_its_module_alone() {
    let mut wrong = Vec::new();
    for (fenced, home) in FENCED {
        for (module, _) in IMPORTS.iter().filter(|(module, _)| module != home) {
            for (place, line) in code(module) {
                if names(&line, &format!("{fenced}::")) || names(&line, &format!("use {fenced}")) {
                    wrong.push(format!("{place}: {module} names {fenced}: {}", line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_model_has_no_clock_and_does_nothing_but_compute() {
    let wrong: Vec<String> = code("model")
        .into_iter()
        .flat_map(|(place, line)| {
            IMPURE.iter().filter(move |word| names(&line, word)).map(move |word| format!("{place}: names {word}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_finds_what_it_looks_for() {
    assert!(names("use crate::store::Row;", "crate::store"));
    assert!(names("    let pool = sqlx::query(TEXT);", "sqlx::"));
    assert!(!names("use crate::stored;", "crate::store"));
    assert!(!names("my_sqlx::query", "sqlx::"));
}
