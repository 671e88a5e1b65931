//! Hosts of two builds at once, and hosts as instances of a service.

use serde_json::{Value, json};

use super::host::Host;
use super::shop::{Kind, Shop, letter, lines};
use crate::harness::psql;

const ROWS: u32 = 300;

/// Everything that a host tells from now on until it has ended, after it was told to.
fn told_to_the_end(mut host: Host) -> Vec<Value> {
    host.signal("TERM");
    let told: Vec<Value> = std::iter::from_fn(|| host.event()).collect();
    assert_eq!(host.ended().code(), Some(0));
    told
}

fn re_emitted(told: &[Value]) -> usize {
    told.iter().filter(|event| event["message"] == "re-emitted").count()
}

fn swept(told: &[Value]) -> u64 {
    let sweeps = told.iter().filter(|event| event["message"] == "swept for the generation");
    sweeps.map(|event| event["rows"].as_u64().unwrap()).sum()
}

/// Waits until the number that a query gives is this one.
fn until(store: &str, query: &str, number: u32) {
    for _ in 0..600 {
        if psql(store, query) == number.to_string() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    panic!("{query} does not become {number}, but {}", psql(store, query));
}

#[test]
fn in_a_rolling_deploy_the_new_hosts_sweep_each_row_once_and_have_its_free_attempt_to_themselves() {
    let shop = Kind::Postgres.shop();
    let store = shop.store().unwrap();
    let held = json!({
        "failure_reason": "ValidationError", "recovery_status": "HoldForReview", "generation": "shop-1",
        "retried_on_generations": ["shop-1"],
    });
    let letters: Vec<Value> = (1..=ROWS).map(|n| letter(n, held.clone())).collect();
    shop.import(&lines(&letters)).exits(0);
    let old: Vec<Host> = (0..2).map(|_| Host::start(&shop, &["--generation", "shop-1"])).collect();

    let starts = || Host::start(&shop, &["--generation", "shop-2"]);
    let new: Vec<Host> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..2).map(|_| scope.spawn(starts)).collect();
        starting.into_iter().map(|host| host.join().unwrap()).collect()
    });
    until(store, "select count(*) from wh_dead_letters where recovery_status = 3", ROWS);

    let by_old: Vec<Value> = old.into_iter().flat_map(told_to_the_end).collect();
    let by_new: Vec<Value> = new.into_iter().flat_map(told_to_the_end).collect();
    assert_eq!((re_emitted(&by_old), re_emitted(&by_new)), (0, ROWS as usize));
    assert_eq!((swept(&by_old), swept(&by_new)), (0, u64::from(ROWS)), "each row once");
    let spent = "select count(*) from wh_dead_letters where replay_credit is null and recovery_attempts = 0
        and retried_on_generations = '{shop-1,shop-2}'";
    assert_eq!(psql(store, spent), ROWS.to_string(), "the credit paid");
    assert_eq!(psql(store, "select count(*) from wh_outbox"), ROWS.to_string());
}

fn registered(shop: &Shop) -> Vec<String> {
    shop.texts("select host_name as n from wh_service_instances where service_name = 'reprieve'")
}

in_both_shops! {
    fn a_host_is_an_instance_while_it_recovers_and_leaves_those_of_the_application_alone(kind: Kind) {
        let shop = kind.shop();
        shop.execute(
            "insert into wh_service_instances
                (instance_id, service_name, host_name, process_id, started_at, last_heartbeat_at)
             values ('01900000-0000-7000-b000-000000000001', 'shop', 'h1', 7, '2026-01-01T00:00:00.000000Z',
                '2026-01-01T00:00:00.000000Z')",
        );
        let host = Host::start(&shop, &["--generation", "shop-1"]);
        let mine = format!(
            "select metadata ->> 'generation' as n from wh_service_instances
             where service_name = 'reprieve' and process_id = {}", host.pid());
        while shop.texts(&mine).is_empty() {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        assert_eq!(shop.texts(&mine), ["shop-1"]);
        assert!(!registered(&shop)[0].is_empty());

        told_to_the_end(host);

        assert_eq!(registered(&shop), Vec::<String>::new());
        assert_eq!(shop.texts("select service_name as n from wh_service_instances"), ["shop"]);
    }

    fn a_host_that_recovers_nothing_is_no_instance(kind: Kind) {
        let shop = kind.shop();
        let program = shop.program(&["serve"]).env("REPRIEVE_RECOVERY__ENABLED", "false");
        let host = Host::start_program(program);

        assert_eq!(registered(&shop), Vec::<String>::new());

        told_to_the_end(host);
    }
}
