//! The host's clock is wrong, and so is its time zone.

use serde_json::json;

use crate::cli::shop::{Kind, Shop, id, letter};
use crate::harness::psql;

/// A scan by a host whose clock is off and whose time zone is an odd one; the messages that it recovered.
fn scan_with_the_clock_off_by(shop: &Shop, offset: &str) -> u64 {
    let mut command = std::process::Command::new("faketime");
    command.args(["-f", offset, env!("CARGO_BIN_EXE_reprieve"), "scan", "--until-idle", "--json"]);
    command.current_dir(shop.path()).env("REPRIEVE_STORE", shop.store().unwrap()).env("TZ", "Australia/Lord_Howe");
    let run = command.output().expect("faketime is installed: run `make bootstrap`");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice::<serde_json::Value>(&run.stdout).unwrap()["recovered"].as_u64().unwrap()
}

#[test]
fn a_host_whose_clock_is_an_hour_off_decides_by_the_clock_of_the_database() {
    for (offset, kind) in [("+1h", Kind::Postgres), ("-1h", Kind::Postgres)] {
        let shop = kind.shop_with(&[letter(1, json!({})), letter(2, json!({}))]);
        let due = "update wh_dead_letters set next_recovery_at = now() + case dead_letter_id
            when '{id}' then interval '30 minutes' else interval '-1 minute' end";
        psql(shop.store().unwrap(), &due.replace("{id}", &id(1)));

        assert_eq!(scan_with_the_clock_off_by(&shop, offset), 1, "with a clock that is {offset} off");
        assert_eq!(shop.show(&id(1))["recovery_status"], "Pending");
        assert_eq!(shop.show(&id(2))["recovery_status"], "Recovered");
        let late = "select abs(extract(epoch from now() - recovered_at)) < 600 from wh_dead_letters where recovered_at
            is not null";
        assert_eq!(psql(shop.store().unwrap(), late), "t", "its time is the database's");
    }
}
