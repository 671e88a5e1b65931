//! `serve` and its HTTP endpoints.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};

use super::host::Host;
use super::shop::{Kind, Shop, id, letter};
use crate::harness::{Psql, migrated_database};

#[test]
fn a_host_migrates_recovers_answers_and_ends_at_sigterm() {
    let shop = Shop::unmigrated();
    let mut host = Host::start(&shop, &["--generation", "shop-1"]);
    assert_eq!(host.get("/healthz").0, 200);
    shop.import(&super::shop::lines(&[letter(1, json!({"error_text": "secret words"}))])).exits(0);
    host.told("re-emitted");
    assert_eq!(shop.show(&id(1))["recovery_status"], "Recovered");

    let (status, body) = host.get("/readyz");
    let ready: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &ready["status"], &ready["store"]), (200, &json!("ready"), &json!("ok")));
    assert_eq!(ready["rejected"], Value::Null);
    assert_eq!(ready["totals"]["total_recovered"], 1);
    assert_eq!(ready["policies"][0]["digest"].as_str().unwrap().len(), 64);
    assert!(ready["policies"][0]["name"].is_string() && ready["policies"][0]["since"].is_string());
    assert!(ready.get("last_scan").is_some() && ready["listener"].is_string());

    let (status, metrics) = host.get("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("whizbang_dead_letters_recovered_total{source_table=\"wh_outbox\"} 1"), "{metrics}");
    assert!(metrics.contains("reprieve_dead_letters{status=\"Recovered\"} 1"), "{metrics}");
    assert!(!metrics.contains("secret words"));
    assert_eq!(host.get("/elsewhere").0, 404);
    assert_eq!(host.stop().code(), Some(0));
}

#[test]
fn a_port_in_use_is_refused_with_the_key_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let shop = Shop::unmigrated();
    let run = shop.program(&["serve"]).env("REPRIEVE_HTTP__LISTEN", &address).run().exits(2);
    assert!(run.stderr.contains(&address) && run.stderr.contains("[http] listen"), "{}", run.stderr);
    assert!(!shop.path().join("reprieve.db").exists());
}

#[test]
fn a_policy_that_cannot_be_loaded_is_refused_before_the_store_is_touched() {
    let shop = Shop::unmigrated();
    let serve = shop.program(&["serve", "--policy", "gone.wasm"]).env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0");
    let run = serve.run().exits(2);
    assert!(run.stderr.contains("gone.wasm"), "{}", run.stderr);
    assert!(!shop.path().join("reprieve.db").exists());
}

in_both_shops! {
    fn a_host_that_is_killed_loses_nothing_and_has_counted_every_attempt(kind: Kind) {
        let rows = 2000;
        let letters: Vec<_> = (1..=rows).map(|n| letter(n, json!({"failure_reason": "LeaseExpired"}))).collect();
        let shop = kind.shop_with(&letters);
        let mut host = Host::start(&shop, &[]);
        host.told("re-emitted");
        host.kill();

        // Its leases have ended by then, and its rows have waited.
        shop.run(&["scan", "--until-idle", "--now", "2099-01-01T00:00:00Z"]).exits(0);
        shop.run(&["scan", "--until-idle", "--now", "2099-01-01T00:02:00Z"]).exits(0);

        let listed = shop.run(&["list", "--json", "--limit", "10000"]).exits(0).json_lines();
        assert_eq!(listed.len(), rows as usize);
        for row in listed {
            let attempts = row["recovery_attempts"].as_u64().unwrap();
            assert!(row["recovery_status"] == "Recovered" && (1..=2).contains(&attempts), "{row}");
        }
    }
}

#[test]
fn a_second_recovering_host_on_a_file_is_refused() {
    let shop = Shop::unmigrated();
    let mut host = Host::start(&shop, &["--generation", "shop-1"]);
    let second = shop.run(&["scan"]).exits(2);
    assert!(second.stderr.contains("another host"), "{}", second.stderr);
    host.stop();
}

#[test]
fn a_host_without_a_generation_says_that_nothing_is_swept() {
    let shop = Shop::unmigrated();
    let (mut command, _) = shop.program(&["serve"]).env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0").into_command();
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let warned = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.contains("serving"))
        .any(|line| line.contains("WARN") && line.contains("generation"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(warned);
}

#[test]
fn a_host_whose_recovery_is_switched_off_answers_and_leaves_the_rows() {
    let shop = Shop::with(&[letter(1, json!({}))]);
    std::fs::write(shop.path().join("off.toml"), "[recovery]\nenabled = false\n").unwrap();
    let mut host = Host::start(&shop, &["--generation", "g", "--config", "off.toml"]);
    assert_eq!(host.get("/readyz").0, 200);
    assert_eq!(host.stop().code(), Some(0));
    assert_eq!(shop.show(&id(1))["recovery_status"], "Pending");
}

#[test]
fn a_host_whose_store_goes_away_says_so_and_recovers_by_itself() {
    let url = migrated_database();
    let shop = Shop::unmigrated();
    let mut host = Host::start(&shop, &["--store", &url, "--generation", "shop-1"]);
    assert_eq!(host.get("/readyz").0, 200);
    let (server, name) = url.rsplit_once('/').unwrap();
    let server = Psql::new(&format!("{server}/postgres"));
    server.run(&format!("alter database {name} allow_connections false"));
    server.run(&format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"));
    host.told("a scan failed; backing off");

    let (status, body) = host.get("/readyz");
    let away: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &away["status"], &away["store"]), (503, &json!("unavailable"), &json!("unreachable")));
    assert_eq!(host.get("/healthz").0, 200, "it is alive all the same");

    server.run(&format!("alter database {name} allow_connections true"));
    let import = shop.program(&["import", "-", "--store", &url]).stdin(letter(1, json!({})).to_string());
    import.run().exits(0);
    host.told("re-emitted");
    assert_eq!(host.get("/readyz").0, 200);
    assert_eq!(host.stop().code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let shop = Shop::with(&[letter(1, json!({})), letter(2, json!({}))]);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (mut command, _) = shop.program(&["scan", "--json"]).env("REPRIEVE_LOG__LEVEL", "info").into_command();
    let scanned = command.stderr(full()).output().unwrap();
    assert_eq!(scanned.status.code(), Some(0));
    let counts: Value = serde_json::from_slice(&scanned.stdout).unwrap();
    assert_eq!(counts["recovered"], 2);
}

#[test]
fn a_host_that_is_told_to_stop_while_it_starts_ends_in_good_order() {
    let shop = Shop::unmigrated();
    let component = crate::policy::example::Language::Python.component();
    let program = shop.program(&["serve", "--policy", component.to_str().unwrap(), "--generation", "g"]);
    let program = program.env("REPRIEVE_POLICY__CACHE_DIR", "none").env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0");
    let (mut command, _) = program.into_command();
    let mut child = command.spawn().unwrap();
    let pid = child.id().to_string();
    // It listens to signals before it compiles, which takes seconds.
    let listens = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() & (1 << 14) != 0
    };
    while !listens() {
        std::thread::yield_now();
    }
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!shop.path().join("reprieve.db").exists());
}
