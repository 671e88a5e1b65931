//! Policies that are replaced again and again while rows are recovered, and hosts that are killed meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::host::Host;
use super::shop::{Kind, Shop, letter, lines};
use super::swapping::{named, renamed_over, sha256};
use crate::harness::psql;

/// Says figures even though the test passes.
pub fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The value below which so many percent of the sorted times lie, in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted[at].as_secs_f64() * 1000.0
}

/// Rows that fall due one after the other, from a second from now on.
fn due_over(rows: u32, time: Duration) -> Vec<Value> {
    let first = Timestamp::now() + Duration::from_secs(1);
    let due = |n: u32| first + time * n / rows;
    let fields = |n| json!({ "next_recovery_at": due(n).to_string(), "failure_reason": "LeaseExpired" });
    (1..=rows).map(|n| letter(n, fields(n))).collect()
}

#[test]
fn two_hundred_swaps_during_twenty_thousand_rows_mix_no_decision_and_fail_none() {
    const ROWS: u32 = 20_000;
    let shop = Kind::Postgres.shop();
    let file = shop.path().join("rules.wasm");
    let good = [named("First"), named("Secnd")];
    fs::write(&file, &good[0]).unwrap();
    shop.import(&lines(&due_over(ROWS, Duration::from_secs(12)))).exits(0);
    // Without a sweep, which would make every row due at once.
    let program = shop.program(&["serve", "--policy", "rules.wasm"]);
    let host = Host::start_for(program, Duration::from_secs(300));
    // The rule that each digest stands for.
    let mut rules = BTreeMap::from([(digest_in_use(&host), "First")]);
    let (mut tail, mut times, mut decided_at_half_time) = (Tail { host, recovered: 0 }, Vec::new(), 0);
    for swap in 1..=200_usize {
        if swap % 5 == 0 {
            let broken = format!("broken in its own way, number {swap}");
            renamed_over(&file, &broken);
            let rejected = tail.told("policy rejected; the last good one serves on");
            assert_eq!(rejected["digest"], sha256(broken.as_bytes()).as_str());
            assert!(rejected["reason"].as_str().unwrap().contains("not a WebAssembly component"), "{rejected}");
        } else {
            let began = Instant::now();
            let which = (swap - swap / 5) % 2;
            renamed_over(&file, &good[which]);
            let loaded = tail.told("policy loaded");
            times.push(began.elapsed());
            rules.insert(loaded["digest"].as_str().unwrap().to_owned(), ["First", "Secnd"][which]);
            if swap < 100 {
                decided_at_half_time = tail.recovered;
            }
        }
    }
    assert!(
        decided_at_half_time > 0 && decided_at_half_time < ROWS,
        "{decided_at_half_time} rows were decided at half time"
    );
    while tail.recovered < ROWS {
        tail.event();
    }
    assert_eq!(tail.host.stop().code(), Some(0));

    times.sort();
    let (p50, p90, p99) = (percentile(&times, 50), percentile(&times, 90), percentile(&times, 99));
    report(&format!(
        "from rename to in use, {} swaps under load: p50 {p50:.0} p90 {p90:.0} p99 {p99:.0} ms",
        times.len()
    ));
    each_row_was_decided_once_by_one_of(&rules, shop.store().unwrap(), ROWS);
}

/// What a host says, with the rows that it has recovered counted.
struct Tail {
    host: Host,
    recovered: u32,
}

impl Tail {
    fn event(&mut self) -> Value {
        let event = self.host.event().expect("the log goes on");
        self.recovered += u32::from(event["message"] == "re-emitted");
        event
    }

    fn told(&mut self, message: &str) -> Value {
        loop {
            let event = self.event();
            if event["message"] == message {
                return event;
            }
        }
    }
}

/// What the store holds about the decisions.
fn each_row_was_decided_once_by_one_of(rules: &BTreeMap<String, &str>, store: &str, rows: u32) {
    let decisions = psql(
        store,
        "select decision, policy_digest, count(*), count(distinct dead_letter_id), min(rule ->> 'name'),
            max(rule ->> 'name')
         from wh_dead_letter_decisions group by decision, policy_digest order by policy_digest",
    );
    let decisions: Vec<Vec<&str>> = decisions.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(decisions.len(), 2, "{decisions:?}");
    assert_eq!(rules.len(), 2);
    for decision in &decisions {
        assert_eq!((decision[0], decision[2]), ("recover", decision[3]), "each row once");
        let rule = rules[decision[1]];
        assert_eq!((decision[4], decision[5]), (rule, rule), "a digest is one policy's: {decision:?}");
    }
    let decided: u32 = decisions.iter().map(|decision| decision[2].parse::<u32>().unwrap()).sum();
    assert_eq!(decided, rows);
    assert_eq!(psql(store, "select count(distinct dead_letter_id) from wh_dead_letter_decisions"), rows.to_string());
    let spoiled = "select count(*) from wh_dead_letters where recovery_status <> 3 or policy_errors <> 0
        or recovery_attempts <> 1";
    assert_eq!(psql(store, spoiled), "0");
}

fn digest_in_use(host: &Host) -> String {
    host.ready()["policies"][0]["digest"].as_str().unwrap().to_owned()
}

/// Resident bytes, open files and threads of a process.
fn footprint(pid: u32) -> (u64, usize, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    (kilobytes << 10, count("fd"), count("task"))
}

#[test]
fn ten_thousand_swaps_take_neither_memory_nor_files() {
    const SWAPS: usize = 10_000;
    const WARM: usize = 1_000;
    // What a host opens once, however late: readers of its store (four, with three files and a thread each) and
    // threads for files. What every hundredth swap left behind would be more.
    const OPENED_LATE: usize = 24;
    let shop = Shop::unmigrated();
    let file = shop.path().join("rules.wasm");
    let good = [named("First"), named("Secnd")];
    fs::write(&file, &good[0]).unwrap();
    let program = shop.program(&["serve", "--policy", "rules.wasm", "--generation", "g"]);
    let mut host = Host::start_for(program, Duration::from_secs(900));
    let mut warm = (0, 0, 0);
    for swap in 1..=SWAPS {
        // The signal spares waiting until nothing is written any more.
        renamed_over(&file, &good[swap % 2]);
        host.signal("HUP");
        host.told("policy loaded");
        if swap == WARM {
            warm = footprint(host.pid());
        }
    }
    let (resident, files, threads) = footprint(host.pid());
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    report(&format!(
        "after {WARM} swaps {:.1} MiB, {} files, {} threads; after {SWAPS} {:.1} MiB, {files} files, {threads} threads",
        mib(warm.0),
        warm.1,
        warm.2,
        mib(resident)
    ));
    assert!(resident < warm.0 + (16 << 20), "{resident} bytes after {}", warm.0);
    assert!(files <= warm.1 + OPENED_LATE, "{files} files after {}", warm.1);
    assert!(threads <= warm.2 + OPENED_LATE, "{threads} threads after {}", warm.2);
}

/// Numbers that look random and are the same in each run.
pub struct Moments(pub u64);

impl Moments {
    /// The next one, below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

in_both_shops! {
    fn fifty_kills_under_load_and_swaps_lose_no_row_and_repeat_none_beyond_its_attempts(kind: Kind) {
        const ROWS: u32 = 20_000;
        const KILLS: u32 = 50;
        const AT_FIRST: u32 = ROWS / 5;
        const FRESH: u32 = (ROWS - AT_FIRST) / KILLS;
        let shop = kind.shop();
        let file = shop.path().join("rules.wasm");
        // Attempts enough for a row that is in the hands of every killed host.
        let patient = |rule: &str| {
            let core = crate::policy::guests::core("", "", "").replace("Guest", rule);
            let core = core.replace("\\03\\00\\00\\00\\00\\00\\00\\00\\80\\ee\\36", "\\63\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00");
            crate::policy::guests::component(crate::policy::guests::POLICY, &core)
        };
        let good = [patient("First"), patient("Secnd")];
        fs::write(&file, &good[0]).unwrap();
        audit_the_outbox(&shop);
        let letters: Vec<_> = (1..=ROWS).map(|n| letter(n, json!({ "failure_reason": "LeaseExpired" }))).collect();
        let (at_first, later) = letters.split_at(AT_FIRST as usize);
        // More than one batch in each lane, so that a kill finds one half done.
        shop.import(&lines(at_first)).exits(0);
        let mut moments = Moments(7);
        for (kill, fresh) in later.chunks(FRESH as usize).enumerate() {
            // So that there is work for each host, whatever the killed ones have in hand.
            shop.import(&lines(fresh)).exits(0);
            let program = shop.program(&["serve", "--policy", "rules.wasm"]);
            let mut host = Host::start_program(program.env("REPRIEVE_RECOVERY__LEASE", "5s"));
            for _ in 0..moments.below(3) {
                swap_something(&file, &good, moments.below(4));
                host.event();
            }
            // Killed in the midst of what it says, whatever that is.
            for _ in 0..moments.below(u64::from(FRESH)) {
                if host.event().is_none_or(|event| event["message"] == "stopped") {
                    panic!("kill {kill}: the host has ended by itself");
                }
            }
            host.kill();
        }
        renamed_over(&file, &good[0]);
        let mut clock = Timestamp::now() + Duration::from_secs(60);
        for _ in 0..100 {
            let now = clock.to_string();
            let scan = ["scan", "--policy", "rules.wasm", "--until-idle", "--json", "--now", &now];
            if shop.run(&scan).exits(0).json()["scanned"] == 0 && shop.stats()["by_status"]["Recovered"] == ROWS {
                break;
            }
            clock += Duration::from_secs(60);
        }

        let mut rows = shop.run(&["list", "--json", "--limit", "10000"]).exits(0).json_lines();
        let last = rows.last().unwrap()["dead_letter_id"].as_str().unwrap().to_owned();
        let rest = shop.run(&["list", "--json", "--limit", "10000", "--after", &last]).exits(0);
        rows.extend(rest.json_lines());
        assert_eq!(rows.len(), ROWS as usize, "no dead letter is lost");
        let emitted = emitted(&shop);
        let mut most = 0;
        for row in &rows {
            assert_eq!(row["recovery_status"], "Recovered", "{row}");
            let attempts = row["recovery_attempts"].as_u64().unwrap();
            let times = emitted.get(row["source_id"].as_str().unwrap()).copied().unwrap_or(0);
            assert!(times == 1 && times <= attempts, "{times} times at {attempts} attempts: {row}");
            most = most.max(attempts);
        }
        report(&format!("{kind:?}: {KILLS} kills, {ROWS} rows recovered once each, at most {most} attempts for one"));
    }
}

/// Replaces the policy by one of the good ones or by something broken.
fn swap_something(file: &Path, good: &[Vec<u8>], which: u64) {
    match good.get(which as usize) {
        Some(good) => renamed_over(file, good),
        None => {
            // The next start needs a good one.
            renamed_over(file, "broken");
            renamed_over(file, &good[0]);
        }
    }
}

/// Has the database write down each row that comes into the outbox, and take it out as a consumer would: a second
/// emission finds nothing in its way.
fn audit_the_outbox(shop: &Shop) {
    shop.execute("create table emitted (source_id text not null)");
    match shop.store() {
        Some(_) => shop.execute(
            "create function audit() returns trigger language plpgsql as $$
             begin
                 insert into emitted values (new.message_id::text);
                 delete from wh_outbox where message_id = new.message_id;
                 return null;
             end $$;
             create trigger audit after insert on wh_outbox for each row execute function audit()",
        ),
        None => shop.execute(
            "create trigger audit after insert on wh_outbox begin
             insert into emitted values (new.message_id);
             delete from wh_outbox where message_id = new.message_id; end",
        ),
    }
}

/// How often each message came into the outbox.
fn emitted(shop: &Shop) -> HashMap<String, u64> {
    let mut times = HashMap::new();
    for source in shop.texts("select source_id as n from emitted") {
        *times.entry(source).or_default() += 1;
    }
    times
}
