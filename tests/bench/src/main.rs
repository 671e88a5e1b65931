//! What recovery costs, beside what it is compared with, all in one run on one machine.
//!
//! Machines are noisy, so every figure is a median of several runs with its spread, and what counts are the ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a benchmark prints, and one that cannot go on says where"
)]

mod bodies;
mod claims;
mod database;
mod diffing;
mod draining;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../policy/guests.rs"]
mod guests;
mod hosts;
mod machine;
mod memory;
mod policies;
mod program;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../harness/psql.rs"]
mod psql;
mod recovery;
mod rego;
mod samples;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../harness/server.rs"]
mod server;
mod snapshot;
mod streams;
mod wakeup;
mod ways;
mod writers;

/// A server as it is installed: what is committed stays committed.
const SETTINGS: &[&str] = &[];

/// What is measured, and with how many rows unless others are asked for.
const PARTS: [(&str, u32); 12] = [
    ("policies", 0),
    ("recovery", 100_000),
    ("bodies", 2_000),
    ("streams", 100_000),
    ("hosts", 100_000),
    ("snapshot", 50_000),
    ("claims", 1_000_000),
    ("writers", 20_000),
    ("memory", 100_000),
    ("draining", 100_000),
    ("diffing", 100_000),
    ("wakeup", 200),
];

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some(program::PROGRAM) {
        return program::run().await;
    }
    let parts = asked(std::env::args().skip(1)).unwrap_or_else(|problem| {
        eprintln!(
            "{problem}; expected: [--rows N] [PART…], with PART one of {}",
            PARTS.map(|(name, _)| name).join(", ")
        );
        std::process::exit(2)
    });
    server::Server::shared_with(std::path::Path::new("/tmp"), SETTINGS);
    database::Database::prepare().await;
    machine::tell();
    for (part, rows) in parts {
        measure(part, rows).await;
    }
}

async fn measure(part: &str, rows: u32) {
    match part {
        "policies" => policies::run().await,
        "recovery" => recovery::run(rows).await,
        "bodies" => bodies::run(rows).await,
        "streams" => streams::run(rows).await,
        "hosts" => hosts::run(rows).await,
        "snapshot" => snapshot::run(rows).await,
        "claims" => claims::run(rows).await,
        "writers" => writers::run(rows).await,
        "memory" => memory::run(rows).await,
        "draining" => draining::run(rows).await,
        "diffing" => diffing::run(rows).await,
        "wakeup" => wakeup::run(rows).await,
        other => panic!("{other} is listed and cannot be measured"),
    }
}

/// The parts that the arguments name, all when they name none, each with its number of rows.
fn asked(mut arguments: impl Iterator<Item = String>) -> Result<Vec<(&'static str, u32)>, String> {
    let (mut rows, mut parts) = (None, Vec::new());
    while let Some(argument) = arguments.next() {
        if argument == "--rows" {
            let given = arguments.next().unwrap_or_default();
            rows = Some(given.parse().ok().filter(|rows| *rows > 0).ok_or(format!("{given:?} is no number of rows"))?);
        } else {
            let part = PARTS.into_iter().find(|(name, _)| *name == argument);
            parts.push(part.ok_or(format!("there is no part {argument:?}"))?);
        }
    }
    let parts = if parts.is_empty() { PARTS.to_vec() } else { parts };
    Ok(parts.into_iter().map(|(name, usual)| (name, rows.unwrap_or(usual))).collect())
}
