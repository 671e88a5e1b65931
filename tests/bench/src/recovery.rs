//! Rows per second on PostgreSQL, beside one raw statement that moves the same rows and beside a loop of single calls.

use crate::database::Backlog;
use crate::samples::Samples;
use crate::ways::{by_host, by_one_statement, by_single_calls, default_matrix};

const RUNS: u32 = 3;
/// A loop of single calls is measured on so many rows.
const LOOP_ROWS: u32 = 5_000;

/// Prints the table.
pub async fn run(rows: u32) {
    let policy = default_matrix().await;
    let backlog = Backlog::of(rows);
    let loop_rows = LOOP_ROWS.min(rows);
    let (mut raw, mut looped) = (Samples::default(), Samples::default());
    let mut lanes = [1, 2, 4].map(|lanes| (lanes, Samples::default()));
    for _ in 0..RUNS {
        raw.add(backlog.measured(by_one_statement).await);
        looped.add(Backlog::of(loop_rows).measured(by_single_calls).await);
        for (lanes, samples) in &mut lanes {
            samples.add(backlog.measured(async |database| by_host(database, &policy, *lanes).await).await);
        }
    }
    println!("\n## recovery: {rows} due rows of 1 KB, rows per second: median (least to most) of {RUNS} runs\n");
    println!("| | rows/s | of the raw statement | of the loop |\n|---|---|---|---|");
    let line = |what: &str, samples: &Samples| {
        println!("| {what} | {samples} | {} | {:.1} |", samples.over(&raw), samples.over(&looped).median());
    };
    line("one raw statement that moves them", &raw);
    line(&format!("a loop of recover_dead_letter ({loop_rows} rows)"), &looped);
    for (lanes, samples) in &lanes {
        line(&format!("reprieve, batches of 200, lanes: {lanes}"), samples);
    }
}
