#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::NamedTempFile;

use super::*;
use crate::model::OnPolicyError;
use crate::model::chain::BUILTIN_DEFAULT_MATRIX;
use crate::model::settings::SettingsSource;

const EXAMPLE: &str = include_str!("../../../examples/reprieve.toml");

fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().prefix("reprieve").suffix(".toml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn environment(variables: &[(&str, &str)]) -> impl Iterator<Item = (OsString, OsString)> {
    let pairs: Vec<_> = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    pairs.into_iter()
}

fn load(text: &str, variables: &[(&str, &str)], overrides: Overrides) -> Result<Config, String> {
    let file = file(text);
    let shown = file.path().display().to_string();
    Config::load(Some(file.path()), environment(variables), overrides)
        .map_err(|error| error.to_string().replace(&shown, "r.toml"))
}

fn from_file(text: &str) -> Result<Config, String> {
    load(text, &[], Overrides::default())
}

fn from_environment(name: &str, value: &str) -> Result<Config, String> {
    load("", &[(name, value)], Overrides::default())
}

fn defaults() -> Config {
    Config::load(None, environment(&[]), Overrides::default()).unwrap()
}

#[test]
fn without_anything_the_defaults_hold() {
    let config = defaults();
    assert_eq!(config.store.url, "sqlite://reprieve.db");
    assert_eq!(config.recovery.scan_interval, Duration::from_secs(600));
    assert_eq!((config.recovery.generation, config.recovery.generation_file), (None, None));
    assert_eq!(config.recovery.generation_replay_stagger, Duration::ZERO);
    assert_eq!(config.policy.chain.len(), 1);
    assert_eq!(config.policy.chain[0].path, BUILTIN_DEFAULT_MATRIX);
    assert_eq!(config.policy.limits.call_time, Duration::from_millis(100));
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:9780");
    assert_eq!(config.perspective.max_inbox_attempts, Some(10));
    assert_eq!((config.log.format, config.log.level), (LogFormat::Text, None));
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let text = "[store]\nurl = 'sqlite://file.db'\n[recovery]\nscan_interval = '1h 30m'\nlanes = 3";
    assert_eq!(from_file(text).unwrap().store.url, "sqlite://file.db");
    assert_eq!(from_file(text).unwrap().recovery.scan_interval, Duration::from_secs(5400));
    let variables = [("REPRIEVE_STORE", "sqlite://env.db"), ("REPRIEVE_RECOVERY__SCAN_INTERVAL", "250s")];
    let config = load(text, &variables, Overrides::default()).unwrap();
    assert_eq!((config.store.url.as_str(), config.recovery.lanes), ("sqlite://env.db", 3));
    assert_eq!(config.recovery.scan_interval, Duration::from_secs(250));
    let overrides = Overrides { store_url: Some("sqlite://flag.db".to_owned()), ..Overrides::default() };
    assert_eq!(load(text, &variables, overrides).unwrap().store.url, "sqlite://flag.db");
}

#[test]
fn the_environment_names_the_file_unless_a_flag_does() {
    let (one, other) = (file("[recovery]\nlanes = 5"), file("[recovery]\nlanes = 6"));
    let variables = [("REPRIEVE_CONFIG", one.path().to_str().unwrap())];
    let lanes = |file| Config::load(file, environment(&variables), Overrides::default()).unwrap().recovery.lanes;
    assert_eq!((lanes(None), lanes(Some(other.path()))), (5, 6));
}

#[test]
fn every_kind_of_value_can_come_from_the_environment() {
    let variables = [
        ("REPRIEVE_RECOVERY__ENABLED", "false"),
        ("REPRIEVE_RECOVERY__LANES", "4"),
        ("REPRIEVE_RECOVERY__ON_POLICY_ERROR", "fallback"),
        ("REPRIEVE_RECOVERY__GENERATION_REPLAY_STAGGER", "0"),
        ("REPRIEVE_GENERATION", "shop-2"),
        ("REPRIEVE_POLICY__LIMITS__MEMORY_BYTES", "1048576"),
        ("REPRIEVE_POLICY__LIMITS__STACK_BYTES", "1 MiB"),
        ("REPRIEVE_POLICY__SETTINGS", r#"{"a": null, "b": [1]}"#),
        ("REPRIEVE_PERSPECTIVE__MAX_INBOX_ATTEMPTS", "none"),
        ("REPRIEVE_HTTP__LISTEN", "[::1]:0"),
        ("REPRIEVE_LOG__FORMAT", "json"),
    ];
    let config = load("", &variables, Overrides::default()).unwrap();
    assert!(!config.recovery.enabled);
    assert_eq!((config.recovery.lanes, config.recovery.on_policy_error), (4, OnPolicyError::Fallback));
    assert_eq!(config.recovery.generation.as_deref(), Some("shop-2"));
    assert_eq!((config.policy.limits.memory_bytes, config.policy.limits.stack_bytes), (1 << 20, 1 << 20));
    assert_eq!(given(&config.policy.chain[0]).to_string(), r#"{"a":null,"b":[1]}"#);
    assert_eq!(config.perspective.max_inbox_attempts, None);
    assert_eq!((config.http.listen.port(), config.log.format), (0, LogFormat::Json));
}

#[test]
fn other_variables_are_not_looked_at() {
    let variables = [("REPRIEVE_FOO", "x"), ("RECOVERY__LANES", "x"), ("PATH", "/bin"), ("reprieve_log__level", "x")];
    assert_eq!(load("", &variables, Overrides::default()).unwrap(), defaults());
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
    let cases = [
        // The same name in another section.
        ("[recovry]\nlanes = 1", "recovry.lanes", "recovery.lanes"),
        ("lanes = 1", "lanes", "recovery.lanes"),
        ("[recovery]\nthreads = 1", "recovery.threads", "policy.threads"),
        // A slip, a beginning and a part of a name.
        ("[recovery]\nscan_intervall = '1m'", "recovery.scan_intervall", "recovery.scan_interval"),
        ("[recovery]\nscan-interval = '1m'", "recovery.scan-interval", "recovery.scan_interval"),
        ("[recovery]\nprobe = '1s'", "recovery.probe", "recovery.probe_interval"),
        ("[recovery]\nstagger = '1s'", "recovery.stagger", "recovery.generation_replay_stagger"),
        ("[policy.limits]\nmemory = 1", "policy.limits.memory", "policy.limits.memory_bytes"),
        ("[policy]\nlimits.lines = 1", "policy.limits.lines", "policy.limits.log_lines"),
        // Whatever it is, one of its section.
        ("[http]\nport = 80", "http.port", "http.listen"),
        ("[policy]\nfile = 'a.wasm'", "policy.file", "policy.path"),
        ("[store]\ndatabase = 'x'", "store.database", "store.url"),
        // A section that is a slip, written as a key, or none.
        ("[recovry]\nprobe = '1s'", "recovry.probe", "recovery.probe_interval"),
        ("[htp]\nport = 1", "htp.port", "http.listen"),
        ("[htp]", "htp", "http.listen"),
        ("policy = 'a.wasm'", "policy", "policy.path"),
        ("http = 80", "http", "http.listen"),
        ("[policy]\nlimits = 1", "policy.limits", "policy.limits.tables"),
        ("[server]\nlisten_on = ':80'", "server.listen_on", "http.listen"),
        ("[server]\nprobe = '1s'", "server.probe", "recovery.probe_interval"),
        // The members of a chain.
        ("[[policy.chain]]\npath = 'a'\nsetting = {}", "policy.chain[0].setting", "policy.chain[0].settings"),
        ("[[policy.chain]]\nfile = 'a'", "policy.chain[0].file", "policy.chain[0].path"),
        ("[[policy.chain]]\npath = 'a'\nsha = 'a'", "policy.chain[0].sha", "policy.chain[0].sha256"),
    ];
    for (text, key, nearest) in cases {
        let expected = format!("configuration file r.toml: unknown key {key}; did you mean {nearest}?");
        assert_eq!(from_file(text).unwrap_err(), expected);
    }
    let of_its_section = from_file("[recovery]\nbogus_key = 1").unwrap_err();
    assert!(of_its_section.contains("unknown key recovery.bogus_key; did you mean recovery."), "{of_its_section}");
    for text in ["[qqqqqqqq]", "[qqqqqqqq]\nzzzzzzzzzz = 1", "'' = 1", "[recovery]\n'' = 1", "[''.'']\n'' = 1"] {
        let error = from_file(text).unwrap_err();
        assert!(error.contains("; did you mean "), "{text}: {error}");
    }
}

#[test]
fn an_unknown_variable_is_named_with_the_nearest_one() {
    for (variable, key, nearest) in [
        ("REPRIEVE_RECOVERY__SCAN_INTERVALL", "recovery.scan_intervall", "REPRIEVE_RECOVERY__SCAN_INTERVAL"),
        ("REPRIEVE_HTTP__PORT", "http.port", "REPRIEVE_HTTP__LISTEN"),
        ("REPRIEVE_POLICY__LIMITS__MEMORY", "policy.limits.memory", "REPRIEVE_POLICY__LIMITS__MEMORY_BYTES"),
    ] {
        let expected = format!("environment variable {variable}: unknown key {key}; did you mean {nearest}?");
        assert_eq!(from_environment(variable, "1").unwrap_err(), expected);
    }
    let nothing_like_it = from_environment("REPRIEVE_FOO__BAR", "1").unwrap_err();
    let start = "environment variable REPRIEVE_FOO__BAR: unknown key foo.bar; did you mean REPRIEVE_";
    assert!(nothing_like_it.starts_with(start) && nothing_like_it.ends_with('?'), "{nothing_like_it}");
}

#[test]
fn an_unknown_key_of_a_megabyte_is_refused_as_soon_as_any_other() {
    let key = "k".repeat(1 << 20);
    let error = from_file(&format!("[recovery]\n{key} = 1")).unwrap_err();
    assert!(error.contains("did you mean recovery."));
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    let cases = [
        ("recovery.scan_interval = '500ms'", "\"500ms\" is out of range; allowed are 1s to 24h"),
        ("recovery.scan_interval = '25h'", "\"25h\" is out of range; allowed are 1s to 24h"),
        ("recovery.scan_interval = '-1m'", "\"-1m\" is negative"),
        ("recovery.scan_interval = 30", "30 has no unit; write it like 250ms, 30s, 10m or 6h"),
        ("recovery.scan_interval = '30'", "\"30\" has no unit; write it like 250ms, 30s, 10m or 6h"),
        ("recovery.scan_interval = 'soon'", "\"soon\" is no duration; write it like 250ms, 30s, 10m or 6h"),
        ("recovery.scan_interval = 0", "0 is out of range; allowed are 1s to 24h"),
        ("recovery.scan_batch_size = 0", "0 is no whole number from 1 to 10000"),
        ("recovery.scan_batch_size = 10001", "10001 is no whole number from 1 to 10000"),
        ("recovery.scan_batch_size = '10'", "\"10\" is no whole number from 1 to 10000"),
        ("recovery.enabled = 'true'", "\"true\" is neither true nor false"),
        ("recovery.generation = ' '", "\" \" is empty"),
        ("recovery.generation = 7", "7 is no text"),
        ("recovery.generation_replay_stagger = '25h'", "\"25h\" is out of range; allowed are 0s to 24h"),
        ("recovery.probe_interval = '11m'", "\"11m\" is out of range; allowed are 100ms to 10m"),
        ("recovery.lease = '4s'", "\"4s\" is out of range; allowed are 5s to 1h"),
        ("recovery.lanes = 17", "17 is no whole number from 1 to 16"),
        ("recovery.max_policy_errors = 101", "101 is no whole number from 1 to 100"),
        ("recovery.on_policy_error = 'x'", "\"x\" is not \"defer\" or \"fallback\""),
        (
            "http.listen = 'localhost'",
            "\"localhost\" is no IP address with a port, such as \"127.0.0.1:9780\" or \"[::1]:9780\"",
        ),
        ("perspective.max_inbox_attempts = 0", "0 is neither a whole number from 1 to 1000 nor \"none\""),
        (
            "policy.limits.memory_bytes = '2GiB'",
            "\"2GiB\" is no number of bytes, such as \"64MiB\", from 64KiB to 1GiB",
        ),
        ("policy.chain = []", "[] is no list of 1 to 8 tables"),
        ("policy.sha256 = 'abc'", "\"abc\" is no SHA-256 of 64 hex digits"),
        ("policy.settings = 1", "1 is neither a table nor the path of a file"),
        ("log.format = 'xml'", "\"xml\" is not \"text\" or \"json\""),
    ];
    for (line, expected) in cases {
        let key = line.split(" = ").next().unwrap();
        let value = expected.split(' ').next().unwrap();
        let message = from_file(line).unwrap_err();
        assert_eq!(message, format!("configuration file r.toml: {key} = {expected}"), "{value}");
    }
}

#[test]
fn the_edges_of_a_range_are_allowed() {
    let text = "[recovery]\nscan_interval = '24h'\nscan_batch_size = 10000\nprobe_interval = '100ms'\nlanes = 16\n\
                generation_replay_stagger = 0\nlease = '1h'\n[perspective]\nmax_outbox_attempts = 1000";
    assert!(from_file(text).is_ok());
}

#[test]
fn a_chain_keeps_its_order_and_each_member_its_settings() {
    let sha256 = "AB".repeat(32);
    let text = format!(
        "[[policy.chain]]\npath = 'a.wasm'\nsha256 = '{sha256}'\n[policy.chain.settings]\nn = 1\n[[policy.chain]]\npath = 'b.wasm'"
    );
    let chain = from_file(&text).unwrap().policy.chain;
    assert_eq!((chain[0].path.as_str(), chain[1].path.as_str()), ("a.wasm", "b.wasm"));
    assert_eq!(given(&chain[0])["n"], 1);
    assert_eq!(chain[0].sha256.as_deref(), Some("ab".repeat(32).as_str()));
    assert_eq!(chain[1].settings, SettingsSource::default());
}

fn given(member: &MemberConfig) -> serde_json::Value {
    match &member.settings {
        SettingsSource::Given(settings) => settings.clone(),
        SettingsSource::File(path) => panic!("a file: {}", path.display()),
    }
}

#[test]
fn settings_may_stand_in_a_file_of_their_own() {
    let file = SettingsSource::File("policies/inventory.toml".into());
    let config = from_file("policy.settings = 'policies/inventory.toml'").unwrap();
    assert_eq!(config.policy.chain[0].settings, file);
    let chain = from_file("[[policy.chain]]\npath = 'a.wasm'\nsettings = 'policies/inventory.toml'").unwrap();
    assert_eq!(chain.policy.chain[0].settings, file);
    let refused = from_file("policy.settings = ''").unwrap_err().to_string();
    assert!(refused.contains("neither a table nor the path of a file"), "{refused}");
}

#[test]
fn settings_are_a_table_of_the_policys_own_keys() {
    let text = "[policy.settings.policy_by_reason.Throttled]\ncooldown = '10m'\nmax_recovery_attempts = 5";
    let settings = given(&from_file(text).unwrap().policy.chain[0]);
    assert_eq!(settings["policy_by_reason"]["Throttled"]["max_recovery_attempts"], 5);
}

#[test]
fn of_path_and_chain_only_one_can_be_set_in_one_place() {
    let text = "[policy]\npath = 'a'\n[[policy.chain]]\npath = 'b'";
    assert_eq!(
        from_file(text).unwrap_err(),
        "configuration file r.toml: policy.path and policy.chain are both set; set one of them"
    );
    let overrides = Overrides { policy_path: Some("c".to_owned()), ..Overrides::default() };
    let config = load("[[policy.chain]]\npath = 'b'", &[], overrides).unwrap();
    assert_eq!(config.policy.chain[0].path, "c");
}

#[test]
fn a_policy_named_by_a_flag_is_not_held_to_the_pin_of_another() {
    let text = format!("[policy]\npath = 'a'\nsha256 = '{}'", "ab".repeat(32));
    assert!(from_file(&text).unwrap().policy.chain[0].sha256.is_some());
    let overrides = Overrides { policy_path: Some("c".to_owned()), ..Overrides::default() };
    assert_eq!(load(&text, &[], overrides).unwrap().policy.chain[0].sha256, None);
}

#[test]
fn the_generation_comes_from_the_place_of_higher_rank() {
    let both = "[recovery]\ngeneration = 'a'\ngeneration_file = 'f'";
    assert!(
        from_file(both)
            .unwrap_err()
            .ends_with("recovery.generation and recovery.generation_file are both set; set one of them")
    );
    let overrides = Overrides { generation: Some("b".to_owned()), ..Overrides::default() };
    let recovery = load("[recovery]\ngeneration_file = 'f'", &[], overrides).unwrap().recovery;
    assert_eq!((recovery.generation.as_deref(), recovery.generation_file), (Some("b"), None));
}

#[test]
fn a_file_that_cannot_be_read_or_is_no_toml_is_named() {
    let missing = PathBuf::from("/nowhere/r.toml");
    let error = Config::load(Some(&missing), environment(&[]), Overrides::default()).unwrap_err().to_string();
    assert!(error.starts_with("configuration file /nowhere/r.toml cannot be read: "), "{error}");
    let error = from_file("[recovery\nlanes = 1").unwrap_err();
    assert!(error.starts_with("configuration file r.toml is no valid TOML: line 1: "), "{error}");
}

#[test]
fn a_password_is_not_shown() {
    for text in ["url = ['postgres://u:secret@h/d']", "url = 'postgres://u:secret@h/d"] {
        let error = from_file(&format!("[store]\n{text}")).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
    let config = from_file("store.url = 'postgres://u:secret@h/d'").unwrap();
    assert!(!format!("{config:?}").contains("secret"));
}

/// A commented default of the example, with the comment above it.
fn example_lines() -> Vec<(String, String, String)> {
    let (mut section, mut comment, mut found) = (String::new(), String::new(), Vec::new());
    let mut after_key = false;
    for line in EXAMPLE.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, value)) =
            line.strip_prefix('#').and_then(|rest| rest.split_once(" = ")).filter(|(key, _)| !key.contains(' '))
        {
            found.push((format!("{section}.{key}"), value.to_owned(), comment.clone()));
            after_key = true;
        } else if let Some(text) = line.strip_prefix("# ") {
            if std::mem::take(&mut after_key) {
                comment.clear();
            }
            comment = format!("{comment} {text}");
        } else if line.is_empty() {
            comment.clear();
        }
    }
    found
}

#[test]
fn the_example_shows_every_key_with_its_default_and_its_range() {
    let mut settings = settings::Settings::default();
    Config::read(&mut settings).unwrap();
    let mut shown = BTreeSet::new();
    for (key, value, comment) in example_lines().iter().filter(|(_, _, comment)| !comment.contains("Several policies"))
    {
        let known = settings.known().get(key.as_str()).unwrap_or_else(|| panic!("{key} is no key"));
        match &known.default {
            Some(default) => assert_eq!(value, default, "{key}"),
            None => assert!(comment.contains("no default"), "{key}: {comment}"),
        }
        assert!(
            comment.to_lowercase().contains(&known.range.to_lowercase()),
            "{key}: {} is not in {comment}",
            known.range
        );
        shown.insert(key.clone());
    }
    shown.insert("policy.chain".to_owned());
    assert_eq!(shown.iter().map(String::as_str).collect::<BTreeSet<_>>(), settings.known().keys().copied().collect());
}

#[test]
fn the_example_is_the_default_configuration_with_its_defaults_written_out() {
    assert_eq!(from_file(EXAMPLE).unwrap(), defaults());
    let written: String = example_lines()
        .iter()
        .filter(|(_, _, comment)| !comment.contains("no default") && !comment.contains("Several policies"))
        .map(|(key, value, _)| format!("{key} = {value}\n"))
        .collect();
    let mut config = from_file(&written).unwrap();
    // A level that is set holds for commands, too, that are quieter without one.
    assert_eq!(config.log.level.take().as_deref(), Some("info"));
    assert_eq!(config, defaults());
}
