//! Four hosts on one PostgreSQL, one of them killed again and again.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::host::Host;
use super::shop::{Kind, Shop, letter, lines};
use super::swapping_under_load::{Moments, report};
use crate::harness::psql;
use crate::harness::server::Server;

const HOSTS: u64 = 4;

/// How much there is to do, and how often a host is killed meanwhile.
struct Load {
    rows: u32,
    streams: u32,
    /// The rows fall due over this time, in another order than that of their streams.
    due_over: Duration,
    kill_every: Duration,
    most: Duration,
}

/// Attempts enough for a row that is in the hands of every killed host.
const SETTINGS: &str = r#"
    [recovery]
    lease = "5s"
    max_policy_errors = 100
    [policy.settings.policy_by_reason.LeaseExpired]
    max_recovery_attempts = 1000
    cooldown = "0s"
    [log]
    level = "warn,reprieve::cli::serve=info"
"#;

/// Rows of streams, in the order of their streams, which have died and fall due in another.
fn dead(load: &Load) -> Vec<Value> {
    let first = Timestamp::now();
    let mut moments = Moments(11);
    let mut places: Vec<u32> = (0..load.rows).collect();
    for at in (1..places.len()).rev() {
        places.swap(at, usize::try_from(moments.below(at as u64 + 1)).unwrap());
    }
    let row = |(n, place): (u32, u32)| {
        let died = first - Duration::from_secs(86_400) + Duration::from_millis(u64::from(place));
        letter(
            n,
            json!({
                "failure_reason": "LeaseExpired",
                "stream_id": format!("01900000-0000-7000-a000-{:012}", n % load.streams),
                "source_created_at": (first - Duration::from_secs(200_000) + Duration::from_secs(u64::from(n))).to_string(),
                "dead_lettered_at": died.to_string(),
                "next_recovery_at": (first + load.due_over * place / load.rows).to_string(),
            }),
        )
    };
    (1..=load.rows).zip(places).map(row).collect()
}

/// Has the database write down, in their order, the rows that come into the outbox, and take them out as a consumer would:
/// a second emission finds nothing in its way.
const AUDIT: &str = "
    create table emitted (n bigint generated always as identity, source_id uuid not null, stream_id uuid not null);
    create function audit() returns trigger language plpgsql as $$
    begin
        insert into emitted (source_id, stream_id) values (new.message_id, new.stream_id);
        delete from wh_outbox where message_id = new.message_id;
        return null;
    end $$;
    create trigger audit after insert on wh_outbox for each row execute function audit()";

/// Lets the minute be over that a row waits whose host was killed while it asked the policy.
const A_MINUTE_LATER: &str = "
    update wh_dead_letters set next_recovery_at = now()
    where dead_letter_id in (
        select dead_letter_id from wh_dead_letters
        where deferral = 'policy-error' and next_recovery_at > now() + interval '1 second'
        order by dead_letter_id
        for update skip locked)";

fn host(shop: &Shop) -> Host {
    let program = shop.program(&["serve", "--config", "reprieve.toml"]);
    let mut host = Host::start_for(program, Duration::from_secs(1800));
    host.unheard();
    host
}

fn number(store: &str, sql: &str) -> u64 {
    psql(store, sql).parse().unwrap()
}

/// Kills a host at intervals, starts it again, until everything is settled; how often, and how long it took.
fn killed_until_settled(shop: &Shop, load: &Load) -> (u32, Duration) {
    let store = shop.store().unwrap();
    let mut hosts: Vec<Host> = (0..HOSTS).map(|_| host(shop)).collect();
    let (began, mut kills, mut moments) = (Instant::now(), 0, Moments(7));
    while number(store, "select count(*) from wh_dead_letters where recovered_at is null") > 0 {
        assert!(began.elapsed() < load.most, "not settled within {:?}: {}", load.most, shop.stats());
        std::thread::park_timeout(load.kill_every);
        let which = usize::try_from(moments.below(HOSTS)).unwrap();
        hosts[which].kill();
        hosts[which] = host(shop);
        kills += 1;
        psql(store, A_MINUTE_LATER);
    }
    let took = began.elapsed();
    for host in &mut hosts {
        host.signal("TERM");
        assert_eq!(host.ended().code(), Some(0));
    }
    (kills, took)
}

fn each_row_is_settled_once_and_in_order(load: &Load) {
    let shop = Kind::Postgres.shop();
    let store = shop.store().unwrap();
    std::fs::write(shop.path().join("reprieve.toml"), SETTINGS).unwrap();
    psql(store, AUDIT);
    shop.import(&lines(&dead(load))).exits(0);

    let (kills, took) = killed_until_settled(&shop, load);

    let rows = u64::from(load.rows);
    assert_eq!(number(store, "select count(*) from emitted"), rows);
    assert_eq!(number(store, "select count(distinct source_id) from emitted"), rows, "none twice, none missing");
    let spoiled = "select count(*) from wh_dead_letters
        where recovery_status <> 3 or recovery_attempts < 1 or recovered_at is null";
    assert_eq!(number(store, spoiled), 0, "each is recovered by an attempt that was counted");
    let decided = "select count(*) from wh_dead_letter_decisions where decision = 'recover'";
    assert_eq!(number(store, decided), rows, "settled once");
    let passed = "select count(*) from (
            select source_id, lag(source_id) over (partition by stream_id order by n) as before from emitted) e
        where e.before > e.source_id";
    assert_eq!(number(store, passed), 0, "no row passed an earlier one of its stream");
    assert_eq!(number(store, "select count(*) from wh_recovery_batches"), 0);
    assert_eq!(number(store, "select deadlocks from pg_stat_database where datname = current_database()"), 0);
    let log = Server::shared().log_of(store);
    assert!(!log.contains("deadlock detected"), "{log}");
    let most = number(store, "select max(recovery_attempts) from wh_dead_letters");
    let again = number(store, "select count(*) from wh_dead_letters where recovery_attempts > 1");
    report(&format!(
        "{HOSTS} hosts, {kills} kills, {rows} rows in {} streams settled once each within {:.0} s, {again} of them after \
         more than one attempt, at most {most}",
        load.streams,
        took.as_secs_f64()
    ));
    assert!(kills >= 3, "{kills} kills");
}

#[test]
fn four_hosts_of_which_one_is_killed_every_second_settle_each_row_once_and_in_the_order_of_its_stream() {
    each_row_is_settled_once_and_in_order(&Load {
        rows: 4_000,
        streams: 100,
        due_over: Duration::from_secs(8),
        kill_every: Duration::from_secs(1),
        most: Duration::from_secs(180),
    });
}

#[test]
#[ignore = "takes minutes; `make soak` runs it"]
fn soak_four_hosts_settle_fifty_thousand_rows_in_five_hundred_streams_while_one_is_killed_every_two_seconds() {
    each_row_is_settled_once_and_in_order(&Load {
        rows: 50_000,
        streams: 500,
        due_over: Duration::from_secs(60),
        kill_every: Duration::from_secs(2),
        most: Duration::from_secs(1200),
    });
}
