//! Arguments, configuration and stores that are refused.

use super::shop::{Shop, id};
use crate::harness::{Program, reprieve};

const COMMANDS: [&str; 14] = [
    "serve", "scan", "sweep", "migrate", "import", "move", "list", "show", "retry", "hold", "give-up", "stats",
    "policy", "demo",
];

#[test]
fn help_names_every_command_and_every_command_shows_an_example() {
    let help = reprieve(&["--help"]).exits(0).stdout;
    for command in COMMANDS {
        assert!(help.contains(command), "{command} in {help}");
        if command != "policy" {
            let help = reprieve(&[command, "--help"]).exits(0).stdout;
            assert!(help.contains("reprieve ") && help.contains("Example"), "{help}");
        }
    }
}

#[test]
fn values_out_of_range_or_of_the_wrong_kind_are_refused_with_what_is_expected() {
    let valid = id(1);
    for (arguments, expected) in [
        (vec!["list", "--limit", "0"], "from 1 to 10000"),
        (vec!["list", "--limit", "-1"], "from 1 to 10000"),
        (vec!["list", "--limit", "10001"], "from 1 to 10000"),
        (vec!["list", "--limit", "many"], "from 1 to 10000"),
        (vec!["list", "--status", "lost"], "HoldForReview"),
        (vec!["list", "--reason", "Tired"], "Throttled"),
        (vec!["list", "--source-table", "orders"], "wh_perspective_events"),
        (vec!["list", "--stream", "7"], "UUID"),
        (vec!["show", "first"], "UUID"),
        (vec!["retry", &valid, "--now", "2026-01-01T00:00:00"], "zone"),
        (vec!["sweep", "--generation", ""], "generation"),
        (vec!["move", "--source-table", "wh_outbox"], "--source-id"),
        (vec!["explode"], "explode"),
    ] {
        let run = Shop::new().run(&arguments).exits(2);
        assert!(run.stderr.contains(expected), "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_store_without_a_schema_is_refused_with_the_command_that_mends_it_and_no_file_is_left() {
    let valid = id(1);
    for arguments in [
        vec!["list"],
        vec!["show", &valid],
        vec!["stats"],
        vec!["scan"],
        vec!["sweep", "--generation", "g"],
        vec!["retry", &valid],
        vec!["import", "-"],
        vec!["serve", "--no-migrate"],
    ] {
        let shop = Shop::unmigrated();
        let run = shop.program(&arguments).env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0").run().exits(2);
        assert!(run.stderr.contains("reprieve migrate"), "{arguments:?}: {}", run.stderr);
        assert!(!shop.path().join("reprieve.db").exists(), "{arguments:?}");
    }
}

#[test]
fn a_store_of_an_unknown_scheme_is_a_usage_error_and_an_unreachable_one_is_not() {
    let unknown = reprieve(&["list", "--store", "mysql://ada:secret@db/shop"]).exits(2);
    assert!(unknown.stderr.contains("mysql") && unknown.stderr.contains("sqlite://"), "{}", unknown.stderr);
    assert!(!unknown.stderr.contains("secret"), "{}", unknown.stderr);
    let away = reprieve(&["list", "--store", "postgres://ada:secret@127.0.0.1:1/shop"]).exits(3);
    assert!(away.stderr.contains("cannot be reached"), "{}", away.stderr);
    assert!(!away.stderr.contains("secret"), "{}", away.stderr);
}

#[test]
fn a_password_with_special_characters_is_refused_unseen_and_with_how_to_write_it() {
    for password in ["se?cret", "se#cret", "s@e/cret", "se:?/cret"] {
        let run = reprieve(&["list", "--store", &format!("postgres://ada:{password}@127.0.0.1:1/shop")]);
        assert!(run.code == 2 || run.code == 3, "{run:?}");
        assert!(!run.stderr.contains("cret") && run.stderr.contains("127.0.0.1"), "{}", run.stderr);
    }
    let run = reprieve(&["list", "--store", "postgres://ada:s#1@db/shop"]).exits(2);
    assert!(run.stderr.contains("percent-encoded"), "{}", run.stderr);
}

#[test]
fn output_that_cannot_be_written_is_an_error_that_says_so() {
    let shop = Shop::new();
    let (mut command, _folder) = shop.program(&["stats"]).into_command();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let done = command.stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.starts_with("error: standard output cannot be written to: "), "{said}");
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let text = "this is a shopping list, and no database of any kind that anybody ever heard of".repeat(20);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("list.txt"), &text).unwrap();
    let run = Program::new(&["list", "--store", "sqlite://list.txt"]).folder(folder.path()).run().exits(2);
    assert!(run.stderr.contains("list.txt"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(folder.path().join("list.txt")).unwrap(), text);
}

#[test]
fn an_unknown_key_of_the_configuration_is_refused_with_the_nearest_one() {
    let shop = Shop::new();
    std::fs::write(shop.path().join("r.toml"), "[recovery]\nscan_intervall = \"5m\"\n").unwrap();
    let run = shop.run(&["list", "--config", "r.toml"]).exits(2);
    assert!(run.stderr.contains("scan_intervall") && run.stderr.contains("scan_interval"), "{}", run.stderr);
    let range = shop.program(&["list"]).env("REPRIEVE_RECOVERY__LANES", "99").run().exits(2);
    assert!(range.stderr.contains("16"), "the range in {}", range.stderr);
}

#[test]
fn migrating_again_changes_nothing() {
    let shop = Shop::unmigrated();
    let first = shop.run(&["migrate", "--json"]).exits(0).json();
    assert!(!first["applied"].as_array().unwrap().is_empty());
    assert_eq!(shop.run(&["migrate", "--json"]).exits(0).json()["applied"], serde_json::json!([]));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let shop = Shop::with(&(1..200).map(|n| super::shop::letter(n, serde_json::json!({}))).collect::<Vec<_>>());
    let (mut command, _folder) = shop.program(&["list", "--json"]).into_command();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    assert!(done.status.success());
}

#[test]
fn a_level_that_is_set_holds_for_every_command_and_otherwise_only_warnings_are_logged() {
    let shop = Shop::new();
    let scan = |level: Option<&str>| {
        let program = shop.program(&["scan", "--generation", "g"]);
        level.into_iter().fold(program, |program, level| program.env("REPRIEVE_LOG__LEVEL", level)).run().exits(0)
    };
    assert_eq!(scan(None).stderr, "");
    assert!(scan(Some("info")).stderr.contains("policy loaded"));
    assert_eq!(scan(Some("error")).stderr, "");
    std::fs::write(shop.path().join("r.toml"), "[log]\nlevel = \"info\"\n").unwrap();
    let run = shop.run(&["scan", "--generation", "g", "--config", "r.toml"]).exits(0);
    assert!(run.stderr.contains("policy loaded"), "{}", run.stderr);
}
