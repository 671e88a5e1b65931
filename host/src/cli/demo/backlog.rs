//! The dead letters that the story is about.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};

use crate::cli::import_lines::{self, Defaults};
use crate::model::dead_letter::UNVERSIONED;
use crate::store::NewDeadLetter;

/// What an order system left behind.
const LINES: &str = include_str!("../../../../examples/dead-letters.jsonl");

/// The dead letters, and the time at which the story begins: an hour after the last of them died.
pub fn read() -> anyhow::Result<(Vec<NewDeadLetter>, Timestamp)> {
    let defaults = Defaults { generation: UNVERSIONED, now: Timestamp::now() };
    let rows = import_lines::read(LINES.as_bytes(), &defaults).context("the embedded dead letters")?.rows;
    let last = rows.iter().filter_map(|row| row.dead_lettered_at).max().unwrap_or(defaults.now);
    let begins = last.checked_add(SignedDuration::from_hours(1)).unwrap_or(last);
    Ok((rows, begins))
}
