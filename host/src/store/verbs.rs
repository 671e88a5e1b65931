//! The arguments of the contract's verbs.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::{FailureReason, SourceTable};

/// One row to move to the dead letters.
#[derive(Debug, Clone)]
pub struct Move {
    /// The id of the dead letter to be made (UUIDv7).
    pub dead_letter_id: Uuid,
    /// Where the row is.
    pub source_table: SourceTable,
    /// Its id there.
    pub source_id: Uuid,
    /// Why it is given up.
    pub failure_reason: FailureReason,
    /// What went wrong, as the application wrote it.
    pub error_text: Option<String>,
    /// The instance that gives it up.
    pub instance_id: Option<Uuid>,
    /// The build it died under.
    pub generation: String,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// A row that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The dead letter.
    pub dead_letter_id: Uuid,
}

/// A generation sweep.
#[derive(Debug, Clone)]
pub struct Sweep<'a> {
    /// The new build.
    pub generation: &'a str,
    /// The rows fall due spread over this window, oldest first; zero makes all due at once.
    pub stagger: Duration,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}
