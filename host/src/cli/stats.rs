//! `stats`: the numbers of the whole table.

use std::fmt::Display;

use clap::Args;
use serde_json::{Map, Value, json};

use super::exit::Ended;
use super::program::Program;
use super::table::Table;
use super::values;
use crate::store::Stats;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve stats --json")]
pub struct StatsArgs {
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<jiff::Timestamp>,
}

/// Counts.
pub async fn run(args: &StatsArgs, program: &Program) -> anyhow::Result<Ended> {
    let stats = program.store().await?.stats(args.now).await?;
    let mut output = program.output();
    output.either(&document(&stats), |_| text(&stats))?;
    output.finish()?;
    Ok(Ended::Done)
}

fn document(stats: &Stats) -> Value {
    json!({
        "by_status": counts(&stats.by_status),
        "by_reason": counts(&stats.by_reason),
        "by_source_table": counts(&stats.by_source_table),
        "by_fingerprint": counts(stats.by_fingerprint.iter().map(|(fingerprint, count)| (fingerprint, count))),
        "oldest_due": stats.oldest_due,
    })
}

fn counts<'a, K: Display + 'a>(counts: impl IntoIterator<Item = (&'a K, &'a u64)>) -> Map<String, Value> {
    counts.into_iter().map(|(name, count)| (name.to_string(), Value::from(*count))).collect()
}

fn text(stats: &Stats) -> String {
    let mut lines = Vec::new();
    section(&mut lines, "STATUS", &stats.by_status);
    section(&mut lines, "REASON", &stats.by_reason);
    section(&mut lines, "SOURCE TABLE", &stats.by_source_table);
    section(&mut lines, "ERROR FINGERPRINT", stats.by_fingerprint.iter().map(|(name, count)| (name, count)));
    let oldest = stats.oldest_due.map_or_else(|| "nothing is due".to_owned(), |at| format!("due since {at:.0}"));
    lines.push(format!("oldest due row: {oldest}"));
    lines.join("\n")
}

fn section<'a, K: Display + 'a>(
    lines: &mut Vec<String>,
    heading: &str,
    counts: impl IntoIterator<Item = (&'a K, &'a u64)>,
) {
    let mut table = Table::new(&[heading, "ROWS"]);
    for (name, count) in counts {
        table.row([name.to_string(), count.to_string()]);
    }
    lines.extend(table.lines());
    lines.push(String::new());
}
