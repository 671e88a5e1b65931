//! Recovering rows with large bodies, beside one raw statement that moves the same rows.

use crate::database::Backlog;
use crate::samples::Samples;
use crate::ways::{LANES, by_host, by_one_statement, default_matrix};

const RUNS: u32 = 3;
/// The length of a body.
pub const LARGE_BYTES: u32 = 100 << 10;

/// Prints the table.
pub async fn run(rows: u32) {
    let policy = default_matrix().await;
    let backlog = Backlog { body_bytes: LARGE_BYTES, ..Backlog::of(rows) };
    let (mut raw, mut host) = (Samples::default(), Samples::default());
    for _ in 0..RUNS {
        raw.add(backlog.measured(by_one_statement).await);
        host.add(backlog.measured(async |database| by_host(database, &policy, LANES).await).await);
    }
    println!("\n## bodies: {rows} due rows of 100 KB, rows per second: median (least to most) of {RUNS} runs\n");
    println!("| | rows/s | of the raw statement |\n|---|---|---|");
    println!("| one raw statement that moves them | {raw} | 1 |");
    println!("| reprieve, batches of 200, lanes: {LANES} | {host} | {} |", host.over(&raw));
}
