//! Recovering rows in the order of their streams, beside the same rows each by itself and beside one raw statement.

use reprieve::policy::{LivePolicy, MemberSource, Origin};

use crate::database::Backlog;
use crate::guests::{PASSES_ON, WITH_FALLBACK, component};
use crate::program::Folder;
use crate::samples::Samples;
use crate::ways::{LANES, by_host, by_one_statement, chain, default_matrix};

const RUNS: u32 = 3;
const STREAMS: u32 = 500;

/// Prints the table.
pub async fn run(rows: u32) {
    let (tail_aware, per_message) = (default_matrix().await, per_message().await);
    println!(
        "\n## streams: {rows} due rows of 1 KB in {STREAMS} streams, rows per second: median (least to most) of {RUNS} runs\n"
    );
    println!("| died | | rows/s | of the raw statement | of per-message |\n|---|---|---|---|---|");
    for (order, shuffled) in [("in the order of the streams", false), ("in a random order", true)] {
        let backlog = Backlog { streams: STREAMS, shuffled, ..Backlog::of(rows) };
        let [mut raw, mut alone, mut ordered] = std::array::from_fn(|_| Samples::default());
        for _ in 0..RUNS {
            raw.add(backlog.measured(by_one_statement).await);
            alone.add(backlog.measured(async |database| by_host(database, &per_message, LANES).await).await);
            ordered.add(backlog.measured(async |database| by_host(database, &tail_aware, LANES).await).await);
        }
        let line = |what: &str, samples: &Samples| {
            println!("| {order} | {what} | {samples} | {} | {} |", samples.over(&raw), samples.over(&alone));
        };
        line("one raw statement, in no order", &raw);
        line("reprieve, per-message", &alone);
        line("reprieve, tail-aware", &ordered);
    }
}

/// The default matrix, but that each row stands by itself.
async fn per_message() -> LivePolicy {
    const ASKED: &str = "(call $get-stream-mode (local.get 0))";
    assert!(PASSES_ON.contains(ASKED), "the question about the stream is passed on");
    let folder = Folder::new();
    let file = folder.path.join("per-message.wasm");
    std::fs::write(&file, component(WITH_FALLBACK, &PASSES_ON.replace(ASKED, "(i32.const 0)"))).unwrap();
    chain(vec![MemberSource::new(Origin::File(file)), MemberSource::new(Origin::Builtin)]).await
}
