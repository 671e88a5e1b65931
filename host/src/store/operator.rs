//! What people ask of a store.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::model::{DeadLetter, FailureReason, RecoveryStatus, SourceTable};

/// A row as it is read: one that cannot be read does not keep the others from being read.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "nearly every value is the large one")]
pub enum Row {
    /// A dead letter.
    Readable(DeadLetter),
    /// Its id as text, and what is wrong with it.
    Unreadable {
        /// The id as it stands in the table.
        dead_letter_id: String,
        /// What could not be read.
        problem: String,
    },
}

/// Which rows. Conditions add up; the empty filter matches every row.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Shown status: a row in a live batch is `Recovering`.
    pub status: Option<RecoveryStatus>,
    /// Why they died.
    pub reason: Option<FailureReason>,
    /// Where they came from.
    pub source_table: Option<SourceTable>,
    /// Their stream.
    pub stream_id: Option<Uuid>,
    /// A glob over the message type: `*` any text, `?` one character, `[abc]` and `[!abc]` one of a set.
    pub message_type: Option<String>,
}

impl Filter {
    /// Whether it matches every row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.status.is_none()
            && self.reason.is_none()
            && self.source_table.is_none()
            && self.stream_id.is_none()
            && self.message_type.is_none()
    }
}

/// Which part of a listing.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// At most so many rows.
    pub limit: u32,
    /// Only rows after this one in the listing's order (newest first, then by id).
    pub after: Option<Uuid>,
}

/// A dead letter to be imported. Columns that are given are kept; the others are filled in by inheritance from
/// earlier deaths of the same message, or by the table's defaults.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the column of its name, described in the data model")]
pub struct NewDeadLetter {
    pub dead_letter_id: Uuid,
    pub source_table: SourceTable,
    pub source_id: Uuid,
    pub stream_id: Option<Uuid>,
    pub message_type: String,
    pub destination: Option<String>,
    pub perspective_name: Option<String>,
    pub envelope: Box<RawValue>,
    pub metadata: Box<RawValue>,
    pub failure_reason: FailureReason,
    pub error_text: Option<String>,
    pub attempts_when_dlq: i32,
    pub dead_lettered_at: Option<Timestamp>,
    pub dead_lettered_by: Option<Uuid>,
    pub recovery_status: Option<RecoveryStatus>,
    pub recovery_attempts: Option<i32>,
    pub last_recovery_at: Option<Timestamp>,
    pub next_recovery_at: Option<Timestamp>,
    pub recovered_at: Option<Timestamp>,
    pub generation: String,
    pub retried_on_generations: Option<Vec<String>>,
    pub operator_disposition: Option<crate::model::Disposition>,
    pub operator_notes: Option<String>,
    pub operator_actor: Option<String>,
    /// Absent: made from the error text.
    pub error_fingerprint: Option<String>,
    pub error_fingerprint_version: Option<i16>,
    pub source_row: Option<Box<RawValue>>,
    pub source_created_at: Option<Timestamp>,
    pub source_position: Option<i64>,
    pub incarnation: Option<i32>,
    pub replay_credit: Option<String>,
    pub replay_credit_at: Option<Timestamp>,
    pub deferral: Option<String>,
    pub policy_errors: Option<i32>,
    pub policy_error_digest: Option<String>,
    pub status_note: Option<String>,
}

/// Dead letters to import.
#[derive(Debug)]
pub struct Import<'a> {
    /// The rows.
    pub rows: &'a [NewDeadLetter],
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

impl<'a> Import<'a> {
    /// The rows in the order of their deaths, whatever their order in the file: a later death of a message is to find
    /// the earlier ones. One without a time dies `now`.
    pub(super) fn by_death(&self, now: Timestamp) -> Vec<&'a NewDeadLetter> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.dead_lettered_at.unwrap_or(now));
        rows
    }
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// How many rows are new.
    pub imported: u64,
    /// The ids that were there already, in the order of the rows.
    pub skipped: Vec<Uuid>,
}

/// What an operator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorVerb {
    /// Pending, due now, with a credit; from any status but Recovered.
    Retry,
    /// Held for review; a new generation tries it again.
    Hold,
    /// Held for review whatever generation comes.
    HoldIndefinitely,
    /// Permanently failed; only a retry brings it back.
    GiveUp,
}

impl OperatorVerb {
    /// The name in recorded decisions and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Hold => "hold",
            Self::HoldIndefinitely => "hold-indefinitely",
            Self::GiveUp => "give-up",
        }
    }
}

/// Whom an operator's verb is for.
#[derive(Debug, Clone)]
pub enum Target {
    /// These rows.
    Ids(Vec<Uuid>),
    /// All rows of a filter that is not empty.
    Filter(Filter),
}

/// An operator's verb.
#[derive(Debug)]
pub struct OperatorChange<'a> {
    /// What.
    pub verb: OperatorVerb,
    /// For which rows.
    pub target: Target,
    /// Who.
    pub actor: &'a str,
    /// Why.
    pub note: Option<&'a str>,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// What an operator's verb did to one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// Which.
    pub dead_letter_id: Uuid,
    /// Whether it changed, and if not why.
    pub result: std::result::Result<(), Unchanged>,
}

/// Why a row was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unchanged {
    /// There is no such row.
    #[error("unknown id")]
    UnknownId,
    /// It is back in its source table.
    #[error("already recovered")]
    AlreadyRecovered,
    /// A host is at it.
    #[error("being recovered")]
    BeingRecovered,
}

/// One row with everything known about it.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The row.
    pub row: Row,
    /// Its envelope as it stands in the table (JSON, unless the row is corrupt).
    pub envelope: String,
    /// Its source row, if it has one.
    pub source_row: Option<String>,
    /// Every death of the same message but this one, oldest first.
    pub incarnations: Vec<Incarnation>,
    /// What was decided about it, oldest first.
    pub decisions: Vec<RecordedDecision>,
}

/// Another death of the same message.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the column of its name")]
pub struct Incarnation {
    pub dead_letter_id: Uuid,
    pub incarnation: i32,
    pub dead_lettered_at: Timestamp,
    pub generation: String,
    pub recovery_status: RecoveryStatus,
}

/// A row of `wh_dead_letter_decisions`.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the column of its name, described in the data model")]
pub struct RecordedDecision {
    pub decision_id: Uuid,
    pub decided_at: Timestamp,
    pub decision: String,
    pub policy_name: Option<String>,
    pub policy_digest: Option<String>,
    pub attempt: Option<i32>,
    /// JSON as text.
    pub rule: Option<String>,
    /// JSON as text.
    pub inputs: Option<String>,
    pub note: Option<String>,
}

/// The numbers of the whole table.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// By shown status; every status has an entry.
    pub by_status: BTreeMap<RecoveryStatus, u64>,
    /// By reason.
    pub by_reason: BTreeMap<FailureReason, u64>,
    /// By source table.
    pub by_source_table: BTreeMap<SourceTable, u64>,
    /// By error fingerprint, the most frequent hundred; rows without one are left out.
    pub by_fingerprint: Vec<(String, u64)>,
    /// When the oldest row that is due fell due.
    pub oldest_due: Option<Timestamp>,
}
