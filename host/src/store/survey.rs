//! Reading through many rows, a page at a time, without changing any.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Candidate, RecordedDecision};
use crate::model::RecoveryStatus;

/// A page of a survey of dead letters. Its place in the table is kept by the caller, so that no snapshot is held.
#[derive(Debug, Clone, Copy)]
pub struct Survey<'a> {
    /// Rows that are shown with one of these.
    pub statuses: &'a [RecoveryStatus],
    /// Rows that died at this time or later.
    pub since: Option<Timestamp>,
    /// Go on after this place; `None` starts at the front.
    pub after: Option<&'a Place>,
    /// At most so many rows are looked at.
    pub limit: u32,
}

/// A place in the order of a survey, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(super) dead_lettered_at: String,
    pub(super) dead_letter_id: String,
}

/// A page of dead letters.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// The database's clock; `None` when no row is left.
    pub now: Option<Timestamp>,
    /// The rows, without their bodies, each with the newer death of its message if there is one. Their order is that of
    /// dying; with settled rows among them it may be that of ids.
    pub rows: Vec<Candidate>,
    /// Rows that could not be read: their id as text and what is wrong.
    pub unreadable: Vec<(String, String)>,
    /// Where to go on; `None` at the end. There may be a next page after one without rows.
    pub next: Option<Place>,
}

/// A page of the recorded decisions of policies, in the order of their ids, which is that of deciding.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Decided at this time or later.
    pub since: Option<Timestamp>,
    /// Go on after this one; `None` starts at the front.
    pub after: Option<Uuid>,
    /// At most so many are looked at.
    pub limit: u32,
}

/// Recorded decisions of policies; what operators asked for is left out.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The decisions, each with the id of its dead letter.
    pub decisions: Vec<(Uuid, RecordedDecision)>,
    /// How many could not be read.
    pub unreadable: u64,
    /// Where to go on; `None` at the end. There may be a next page after one without decisions.
    pub next: Option<Uuid>,
}
