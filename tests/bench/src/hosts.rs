//! Hosts that share a database, each a process of its own.

use std::process::{Child, Stdio};

use crate::database::{Backlog, Database};
use crate::program::{Folder, command};
use crate::samples::Samples;
use crate::ways::by_one_statement;

const RUNS: u32 = 3;

/// From the first row to the last: what the processes need to start is not counted.
const RATE: &str = "
select (count(*) / extract(epoch from max(recovered_at) - min(recovered_at)))::double precision
from wh_dead_letters where recovered_at is not null";

/// Prints the table.
pub async fn run(rows: u32) {
    let folder = Folder::new();
    let backlog = Backlog::of(rows);
    // What the hosts need is compiled once, before any of them is measured.
    Backlog::of(1_000.min(rows)).measured(async |database| by_processes(database, &folder, 1).await).await;
    let mut raw = Samples::default();
    let mut hosts = [1, 2, 4].map(|hosts| (hosts, Samples::default()));
    for _ in 0..RUNS {
        raw.add(backlog.measured(by_one_statement).await);
        for (hosts, samples) in &mut hosts {
            samples.add(backlog.measured(async |database| by_processes(database, &folder, *hosts).await).await);
        }
    }
    println!("\n## hosts: {rows} due rows of 1 KB, rows per second: median (least to most) of {RUNS} runs\n");
    println!("| | rows/s | of the raw statement | of one host |\n|---|---|---|---|");
    println!("| one raw statement that moves them | {raw} | 1 | |");
    for (count, samples) in &hosts {
        let (of_raw, of_one) = (samples.over(&raw), samples.over(&hosts[0].1));
        println!("| hosts: {count} | {samples} | {of_raw} | {of_one} |");
    }
}

async fn by_processes(database: &Database, folder: &Folder, hosts: usize) -> f64 {
    let arguments = ["scan", "--until-idle", "--generation", "g1", "--json"];
    let start = || {
        let mut host = command(&folder.path, &database.url, &arguments);
        host.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<Child> = (0..hosts).map(|_| start()).collect();
    let recovered: u64 = running.into_iter().map(recovered).sum();
    assert_eq!(recovered, u64::from(database.rows));
    assert_eq!(database.count("wh_outbox").await, database.rows);
    sqlx::query_scalar(RATE).fetch_one(&database.pool).await.unwrap()
}

fn recovered(host: Child) -> u64 {
    let done = host.wait_with_output().unwrap();
    let counts: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    counts["recovered"].as_u64().unwrap()
}
