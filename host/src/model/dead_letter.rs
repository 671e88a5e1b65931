//! A dead letter without its body.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};

/// The free attempt that an operator's retry grants, for any generation.
pub const OPERATOR_CREDIT: &str = "*";

/// The generation that rows are tagged with when none is configured.
pub const UNVERSIONED: &str = "unversioned";

/// One row of `wh_dead_letters`, every column but `envelope` and `source_row`.
///
/// The fields are the columns, under the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the column of its name, described in the data model")]
pub struct DeadLetter {
    pub dead_letter_id: Uuid,
    pub source_table: SourceTable,
    pub source_id: Uuid,
    pub stream_id: Option<Uuid>,
    pub message_type: String,
    pub destination: Option<String>,
    pub perspective_name: Option<String>,
    /// A JSON object, as text.
    pub metadata: String,
    pub failure_reason: FailureReason,
    pub error_text: Option<String>,
    pub attempts_when_dlq: i32,
    pub dead_lettered_at: Timestamp,
    pub dead_lettered_by: Option<Uuid>,
    pub recovery_status: RecoveryStatus,
    pub recovery_attempts: i32,
    pub last_recovery_at: Option<Timestamp>,
    pub next_recovery_at: Option<Timestamp>,
    pub recovered_at: Option<Timestamp>,
    pub generation: String,
    pub retried_on_generations: Vec<String>,
    pub operator_disposition: Disposition,
    pub operator_notes: Option<String>,
    pub operator_actor: Option<String>,
    pub error_fingerprint: Option<String>,
    pub error_fingerprint_version: Option<i16>,
    pub source_created_at: Option<Timestamp>,
    pub source_position: Option<i64>,
    pub incarnation: i32,
    pub replay_credit: Option<String>,
    pub replay_credit_at: Option<Timestamp>,
    /// A deferral that this version does not know reads as `None`.
    pub deferral: Option<Deferral>,
    pub policy_errors: i32,
    pub policy_error_digest: Option<String>,
    pub status_note: Option<String>,
}

impl DeadLetter {
    /// The stream it belongs to; the all-zero id counts as no stream.
    #[must_use]
    pub fn stream(&self) -> Option<Uuid> {
        self.stream_id.filter(|id| !id.is_nil())
    }

    /// What tells its stream from every other: the table it belongs to, and for perspective rows the perspective.
    #[must_use]
    pub fn stream_key(&self) -> Option<(SourceTable, Uuid, &str)> {
        let perspective = match self.source_table {
            SourceTable::PerspectiveEvents => self.perspective_name.as_deref().unwrap_or_default(),
            SourceTable::Outbox | SourceTable::Inbox => "",
        };
        Some((self.source_table, self.stream()?, perspective))
    }
}
