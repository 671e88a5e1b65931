//! `list`: dead letters, newest first, without bodies.

use std::collections::HashMap;

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use super::exit::Ended;
use super::filter::FilterArgs;
use super::output::{Output, tell};
use super::program::Program;
use super::table::{Table, cut};
use super::values;
use crate::model::json::{WAITS_FOR, write_columns};
use crate::model::{DeadLetter, Deferral, text::visible};
use crate::store::{Page, Row};

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve list --status hold-for-review --reason ValidationError --limit 20")]
pub struct ListArgs {
    /// At most so many, 1 to 10000
    #[arg(long, value_name = "N", default_value = "100", value_parser = values::limit, allow_negative_numbers = true)]
    limit: u32,
    /// Go on after this dead letter: the last id that was printed
    #[arg(long, value_name = "ID", value_parser = values::id)]
    after: Option<Uuid>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Lists.
pub async fn run(args: &ListArgs, program: &Program) -> anyhow::Result<Ended> {
    let store = program.store().await?;
    let page = Page { limit: args.limit, after: args.after };
    let rows = store.list(&args.filter.filter(), &page).await?;
    let waits = store.waits_for(&waiting(&rows)).await?;
    let mut output = program.output();
    if output.json() {
        documents(&rows, &waits, &mut output)?
    } else {
        table(&rows, &waits, &mut output)?
    }
    let last = rows.last().filter(|_| !program.json && rows.len() == args.limit as usize);
    if let Some(last) = last {
        tell!("more may follow: --after {}", id(last));
    }
    output.finish()?;
    Ok(Ended::Done)
}

/// Those that wait for an earlier one of their stream.
fn waiting(rows: &[Row]) -> Vec<Uuid> {
    let waits = |row: &Row| match row {
        Row::Readable(entry) if entry.deferral == Some(Deferral::Stream) => Some(entry.dead_letter_id),
        Row::Readable(_) | Row::Unreadable { .. } => None,
    };
    rows.iter().filter_map(waits).collect()
}

/// What rows of a listing wait for.
type Waits = HashMap<Uuid, Uuid>;

fn documents(rows: &[Row], waits: &Waits, output: &mut Output) -> anyhow::Result<()> {
    for row in rows {
        if output.gone() {
            break;
        }
        match row {
            Row::Readable(entry) => output.line(line(entry, waits))?,
            Row::Unreadable { dead_letter_id, problem } => {
                output.document(&json!({ "dead_letter_id": dead_letter_id, "unreadable": problem }))?;
            }
        }
    }
    Ok(())
}

/// The columns, and in a row that waits for an earlier one of its stream, which one.
fn line(entry: &DeadLetter, waits: &Waits) -> String {
    let mut line = "{".to_owned();
    write_columns(entry, &mut line);
    if let Some(earlier) = waits.get(&entry.dead_letter_id) {
        line += &format!(",\"{WAITS_FOR}\":\"{earlier}\"");
    }
    line + "}"
}

fn table(rows: &[Row], waits: &Waits, output: &mut Output) -> anyhow::Result<()> {
    if rows.is_empty() {
        tell!("no dead letters");
        return Ok(());
    }
    let headings =
        ["DEAD LETTER", "DIED", "STATUS", "REASON", "FROM", "ATTEMPTS", "NEXT ATTEMPT", "GENERATION", "MESSAGE TYPE"];
    let more = if waits.is_empty() { [].as_slice() } else { &["WAITS FOR"] };
    let mut table = Table::new(&[headings.as_slice(), more].concat());
    for row in rows {
        match row {
            Row::Readable(entry) => {
                let earlier = waits.get(&entry.dead_letter_id).map_or_else(|| "-".to_owned(), Uuid::to_string);
                table.row(cells(entry).into_iter().chain(more.iter().map(|_| earlier.clone())));
            }
            Row::Unreadable { dead_letter_id, problem } => {
                table.row([
                    visible(dead_letter_id).into_owned(),
                    format!("unreadable: {}", cut(&visible(problem), 100)),
                ]);
            }
        }
    }
    for line in table.lines() {
        output.line(line)?;
    }
    Ok(())
}

fn cells(entry: &DeadLetter) -> [String; 9] {
    [
        entry.dead_letter_id.to_string(),
        format!("{:.0}", entry.dead_lettered_at),
        entry.recovery_status.to_string(),
        entry.failure_reason.to_string(),
        entry.source_table.to_string(),
        entry.recovery_attempts.to_string(),
        entry.next_recovery_at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}")),
        cut(&visible(&entry.generation), 24),
        cut(&visible(&entry.message_type), 60),
    ]
}

fn id(row: &Row) -> String {
    match row {
        Row::Readable(entry) => entry.dead_letter_id.to_string(),
        Row::Unreadable { dead_letter_id, .. } => dead_letter_id.clone(),
    }
}
