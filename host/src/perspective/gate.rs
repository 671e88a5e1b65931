//! The check that stands right behind a claim: rows that have been claimed too often become dead letters.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::{FailureReason, SourceTable};
use crate::store::PerspectiveStore;
use crate::store::perspective::{ClaimedEvent, DoomedRow, LeasedMove, LeasedMoves};
use crate::telemetry::Metrics;

/// A row of a source table, right after its claim.
pub trait Gated {
    /// Its id there: `message_id`, or `event_work_id`.
    fn source_id(&self) -> Uuid;
    /// How often it has been claimed, this time included.
    fn attempts(&self) -> i32;
    /// What it is, for the error text of its dead letter.
    fn describe(&self) -> String;
}

impl Gated for ClaimedEvent {
    fn source_id(&self) -> Uuid {
        self.event_work_id
    }

    fn attempts(&self) -> i32 {
        self.attempts
    }

    fn describe(&self) -> String {
        format!("perspective {}, stream {}, event {}", self.perspective_name, self.stream_id, self.event_id)
    }
}

/// A message of the inbox or the outbox that is about to be dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub message_id: Uuid,
    /// Its type.
    pub message_type: String,
    /// How often it has been claimed, this time included.
    pub attempts: i32,
}

impl Gated for Message {
    fn source_id(&self) -> Uuid {
        self.message_id
    }

    fn attempts(&self) -> i32 {
        self.attempts
    }

    fn describe(&self) -> String {
        format!("message {} of type {}", self.message_id, self.message_type)
    }
}

/// The gate of one source table: for perspective events behind the claim, for inbox and outbox before the dispatch.
#[derive(Clone)]
pub struct Gate {
    /// The table that the rows are of.
    pub source_table: SourceTable,
    /// Attempts that a row gets; it is moved when it is claimed once more. `None` lets every row pass.
    pub max_attempts: Option<u32>,
    /// Where dead letters go. `None` lets every row pass.
    pub dead_letters: Option<Arc<dyn PerspectiveStore>>,
    /// The build that rows die under. `None` lets every row pass.
    pub generation: Option<Arc<str>>,
    /// The instance that has claimed the rows.
    pub instance_id: Uuid,
    /// Where moves and failed moves are counted.
    pub metrics: Metrics,
}

/// What came through the gate, and what did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered<T> {
    /// The rows to go on with, in the order in which they came.
    pub survivors: Vec<T>,
    /// How many are dead letters now.
    pub moved: u64,
    /// How many were over the cap but are somebody else's by now.
    pub gone: u64,
    /// How many are over the cap and could not be moved: they are among the survivors, and the next claim tries again.
    pub failed: u64,
}

impl Gate {
    /// Moves the rows that were claimed more often than allowed, all in one call, and gives the others.
    ///
    /// A row that cannot be moved stays: failing visibly is better than losing it. It is logged and counted.
    pub async fn filter<T: Gated>(&self, rows: Vec<T>, now: Option<Timestamp>) -> Filtered<T> {
        let (Some(max), Some(store), Some(generation)) = (self.max_attempts, &self.dead_letters, &self.generation)
        else {
            return Filtered { survivors: rows, moved: 0, gone: 0, failed: 0 };
        };
        let spent = |row: &&T| i64::from(row.attempts()) > i64::from(max);
        let doomed: Vec<DoomedRow> = rows.iter().filter(spent).map(|row| doom(row, max)).collect();
        if doomed.is_empty() {
            return Filtered { survivors: rows, moved: 0, gone: 0, failed: 0 };
        }
        let moves = LeasedMoves {
            source_table: self.source_table,
            rows: &doomed,
            failure_reason: FailureReason::MAX_ATTEMPTS_EXCEEDED,
            instance_id: self.instance_id,
            generation,
            now,
        };
        let outcomes = match store.move_leased(&moves).await {
            Ok(outcomes) => outcomes,
            Err(error) => vec![LeasedMove::Failed(error.to_string()); doomed.len()],
        };
        let became = doomed.iter().map(|row| row.source_id).zip(outcomes).collect();
        self.sort(rows, became)
    }

    fn sort<T: Gated>(&self, rows: Vec<T>, became: HashMap<Uuid, LeasedMove>) -> Filtered<T> {
        let mut filtered = Filtered { survivors: Vec::with_capacity(rows.len()), moved: 0, gone: 0, failed: 0 };
        let mut first_problem = None;
        for row in rows {
            match became.get(&row.source_id()) {
                None => filtered.survivors.push(row),
                Some(LeasedMove::Moved) => {
                    filtered.moved += 1;
                    self.metrics.added(self.source_table, FailureReason::MAX_ATTEMPTS_EXCEEDED);
                    tracing::info!(source_table = %self.source_table, source_id = %row.source_id(),
                        attempts = row.attempts(), "dead-lettered: its attempts are spent");
                }
                Some(LeasedMove::Gone) => filtered.gone += 1,
                Some(LeasedMove::Failed(problem)) => {
                    filtered.failed += 1;
                    self.metrics.failed_move(self.source_table);
                    first_problem.get_or_insert_with(|| (row.source_id(), problem.clone()));
                    filtered.survivors.push(row);
                }
            }
        }
        if let Some((source_id, problem)) = first_problem {
            tracing::error!(source_table = %self.source_table, rows = filtered.failed, %source_id, problem,
                "rows whose attempts are spent could not be moved to the dead letters: they are tried again");
        }
        filtered
    }
}

fn doom(row: &impl Gated, max: u32) -> DoomedRow {
    DoomedRow {
        source_id: row.source_id(),
        dead_letter_id: Uuid::now_v7(),
        error_text: format!("claimed {} times, more than the {max} allowed: {}", row.attempts(), row.describe()),
    }
}
