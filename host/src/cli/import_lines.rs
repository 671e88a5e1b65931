//! A file of dead letters, one JSON object a line.
//!
//! The file is read line by line with bounded memory: a line that is too long is passed over, not kept. Blank lines,
//! CRLF and a byte order mark at the start are accepted. One bad line refuses the file.

mod lines;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};

use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::model::ids::AscendingIds;
use crate::model::json::{FieldError, ImportLine};
use crate::store::NewDeadLetter;

pub use lines::{Lines, MAX_LINE, read_lines};

/// How many bad lines are told one by one.
pub const MAX_TOLD: usize = 10;

const DEFAULT_ENVELOPE: &str = "{\"event_data\": {}, \"metadata\": {}}";
const DEFAULT_METADATA: &str = "{}";

/// What is filled in where a line says nothing.
#[derive(Debug, Clone, Copy)]
pub struct Defaults<'a> {
    /// The build it died under.
    pub generation: &'a str,
    /// The time in new ids. When it was dead-lettered is left to the store's clock.
    pub now: Timestamp,
}

/// Why nothing is imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The input could not be read to its end.
    #[error("reading stopped after line {after}: {error}")]
    Read {
        /// The last line that was read.
        after: u64,
        /// What the system said.
        error: io::Error,
    },
    /// Some lines are bad.
    #[error("nothing was imported: {0}")]
    Lines(BadLines),
}

/// The bad lines of a file: the first [`MAX_TOLD`], and how many more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadLines {
    /// The first of them.
    pub first: Vec<BadLine>,
    /// How many more.
    pub more: u64,
}

/// One bad line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub error: FieldError,
}

impl BadLines {
    /// One more.
    pub fn add(&mut self, number: u64, error: FieldError) {
        if self.first.len() < MAX_TOLD {
            self.first.push(BadLine { number, error });
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for BadLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first.len() as u64 + self.more {
            1 => f.write_str("1 line is bad")?,
            count => write!(f, "{count} lines are bad")?,
        }
        for line in &self.first {
            write!(f, "\n  line {}: {}", line.number, line.error)?;
        }
        if self.more > 0 {
            write!(f, "\n  and {} more", self.more)?;
        }
        Ok(())
    }
}

/// The dead letters of a file.
#[derive(Debug)]
pub struct Letters {
    /// In the order of the file.
    pub rows: Vec<NewDeadLetter>,
    numbers: Vec<u64>,
}

impl Letters {
    /// The number of the line that a dead letter stands on.
    #[must_use]
    pub fn line_of(&self, dead_letter_id: Uuid) -> Option<u64> {
        let at = self.rows.iter().position(|row| row.dead_letter_id == dead_letter_id)?;
        self.numbers.get(at).copied()
    }
}

/// Reads a whole file.
///
/// # Errors
///
/// [`ImportError::Lines`] with every bad line counted; [`ImportError::Read`] when the input breaks off.
pub fn read(reader: impl BufRead, defaults: &Defaults<'_>) -> Result<Letters, ImportError> {
    let mut letters = Letters { rows: Vec::new(), numbers: Vec::new() };
    let mut bad = BadLines::default();
    let mut seen = HashMap::new();
    let mut new_ids = AscendingIds::of(defaults.now);
    let mut after = 0;
    for line in read_lines(reader) {
        let line = line.map_err(|error| ImportError::Read { after, error })?;
        after = line.number;
        match line.text.and_then(|text| ImportLine::parse(&text)).and_then(|row| once(&mut seen, row, line.number)) {
            Ok(row) => {
                letters.rows.push(into_new_dead_letter(row, defaults, &mut new_ids));
                letters.numbers.push(line.number);
            }
            Err(error) => bad.add(line.number, error),
        }
    }
    if bad.first.is_empty() { Ok(letters) } else { Err(ImportError::Lines(bad)) }
}

/// Refuses an id that another line of the file has.
fn once(seen: &mut HashMap<Uuid, u64>, row: ImportLine, number: u64) -> Result<ImportLine, FieldError> {
    if let Some(id) = row.dead_letter_id {
        if let Some(earlier) = seen.get(&id) {
            return Err(FieldError::new("dead_letter_id", &id.to_string(), format!("is on line {earlier} already")));
        }
        seen.insert(id, number);
    }
    Ok(row)
}

/// Fills in what a line leaves open. What earlier deaths of the message or the table's defaults decide stays open. The
/// new ids of a file ascend with its lines: where these say nothing else of the order of a stream, it is theirs.
fn into_new_dead_letter(line: ImportLine, defaults: &Defaults<'_>, new_ids: &mut AscendingIds) -> NewDeadLetter {
    NewDeadLetter {
        dead_letter_id: line.dead_letter_id.unwrap_or_else(|| new_ids.next_id()),
        source_table: line.source_table,
        source_id: line.source_id.unwrap_or_else(|| new_ids.next_id()),
        stream_id: line.stream_id,
        message_type: line.message_type,
        destination: line.destination,
        perspective_name: line.perspective_name,
        envelope: line.envelope.unwrap_or_else(|| raw(DEFAULT_ENVELOPE)),
        metadata: line.metadata.unwrap_or_else(|| raw(DEFAULT_METADATA)),
        failure_reason: line.failure_reason,
        error_text: line.error_text,
        attempts_when_dlq: line.attempts_when_dlq.unwrap_or(0),
        dead_lettered_at: line.dead_lettered_at,
        dead_lettered_by: line.dead_lettered_by,
        recovery_status: line.recovery_status,
        recovery_attempts: line.recovery_attempts,
        last_recovery_at: line.last_recovery_at,
        next_recovery_at: line.next_recovery_at,
        recovered_at: line.recovered_at,
        generation: line.generation.unwrap_or_else(|| defaults.generation.to_owned()),
        retried_on_generations: line.retried_on_generations,
        operator_disposition: line.operator_disposition,
        operator_notes: line.operator_notes,
        operator_actor: line.operator_actor,
        error_fingerprint: line.error_fingerprint,
        error_fingerprint_version: line.error_fingerprint_version,
        source_row: line.source_row,
        source_created_at: line.source_created_at.or(line.dead_lettered_at),
        source_position: line.source_position,
        incarnation: line.incarnation,
        replay_credit: line.replay_credit,
        replay_credit_at: line.replay_credit_at,
        deferral: line.deferral.map(|deferral| deferral.name().to_owned()),
        policy_errors: line.policy_errors,
        policy_error_digest: line.policy_error_digest,
        status_note: line.status_note,
    }
}

/// A constant that is JSON.
fn raw(json: &'static str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
