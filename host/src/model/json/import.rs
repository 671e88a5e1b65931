//! One line of an import.

use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::FieldError;
use super::entry::WAITS_FOR;
use super::fields::Fields;
use crate::model::text::clean;
use crate::model::{Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};

/// Every column of `wh_dead_letters`, in its order.
pub(super) const COLUMNS: [&str; 36] = [
    "dead_letter_id",
    "source_table",
    "source_id",
    "stream_id",
    "message_type",
    "destination",
    "perspective_name",
    "envelope",
    "metadata",
    "failure_reason",
    "error_text",
    "attempts_when_dlq",
    "dead_lettered_at",
    "dead_lettered_by",
    "recovery_status",
    "recovery_attempts",
    "last_recovery_at",
    "next_recovery_at",
    "recovered_at",
    "generation",
    "retried_on_generations",
    "operator_disposition",
    "operator_notes",
    "operator_actor",
    "error_fingerprint",
    "error_fingerprint_version",
    "source_row",
    "source_created_at",
    "source_position",
    "incarnation",
    "replay_credit",
    "replay_credit_at",
    "deferral",
    "policy_errors",
    "policy_error_digest",
    "status_note",
];

/// A dead letter as it stands in a file: what is absent is told apart from what is given.
///
/// Texts hold no U+0000, `error_text` is clean, times are cut to microseconds, and the JSON objects are kept byte for
/// byte.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is the column of its name, described in the data model")]
pub struct ImportLine {
    pub dead_letter_id: Option<Uuid>,
    pub source_table: SourceTable,
    pub source_id: Option<Uuid>,
    pub stream_id: Option<Uuid>,
    pub message_type: String,
    pub destination: Option<String>,
    pub perspective_name: Option<String>,
    pub envelope: Option<Box<RawValue>>,
    pub metadata: Option<Box<RawValue>>,
    pub failure_reason: FailureReason,
    pub error_text: Option<String>,
    pub attempts_when_dlq: Option<i32>,
    pub dead_lettered_at: Option<Timestamp>,
    pub dead_lettered_by: Option<Uuid>,
    pub recovery_status: Option<RecoveryStatus>,
    pub recovery_attempts: Option<i32>,
    pub last_recovery_at: Option<Timestamp>,
    pub next_recovery_at: Option<Timestamp>,
    pub recovered_at: Option<Timestamp>,
    pub generation: Option<String>,
    pub retried_on_generations: Option<Vec<String>>,
    pub operator_disposition: Option<Disposition>,
    pub operator_notes: Option<String>,
    pub operator_actor: Option<String>,
    pub error_fingerprint: Option<String>,
    pub error_fingerprint_version: Option<i16>,
    pub source_row: Option<Box<RawValue>>,
    pub source_created_at: Option<Timestamp>,
    pub source_position: Option<i64>,
    pub incarnation: Option<i32>,
    pub replay_credit: Option<String>,
    pub replay_credit_at: Option<Timestamp>,
    pub deferral: Option<Deferral>,
    pub policy_errors: Option<i32>,
    pub policy_error_digest: Option<String>,
    pub status_note: Option<String>,
}

impl ImportLine {
    /// Reads one line. `source_table`, `message_type` and `failure_reason` are required; a perspective row also needs
    /// `stream_id`, `perspective_name` and `envelope.event_id`. A status of Recovering is read as Pending; what a listed
    /// row waits for is dropped.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let known: Vec<&str> = COLUMNS.iter().copied().chain([WAITS_FOR]).collect();
        let fields = Fields::parse(text, &known)?;
        let line = Self::read(&fields)?;
        line.check_perspective()?;
        line.check_states()?;
        Ok(line)
    }

    fn read(fields: &Fields<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            source_table: fields.source_table()?.ok_or_else(|| FieldError::missing("source_table"))?,
            message_type: fields.text("message_type")?.ok_or_else(|| FieldError::missing("message_type"))?,
            failure_reason: fields.reason()?.ok_or_else(|| FieldError::missing("failure_reason"))?,
            dead_letter_id: fields.uuid("dead_letter_id")?,
            source_id: fields.uuid("source_id")?,
            stream_id: fields.uuid("stream_id")?,
            destination: fields.text("destination")?,
            perspective_name: fields.text("perspective_name")?,
            envelope: fields.object("envelope")?,
            metadata: fields.object("metadata")?,
            error_text: fields.text("error_text")?.map(|text| clean(&text)),
            attempts_when_dlq: fields.count("attempts_when_dlq", 0)?,
            dead_lettered_at: fields.time("dead_lettered_at")?,
            dead_lettered_by: fields.uuid("dead_lettered_by")?,
            recovery_status: fields.status()?,
            recovery_attempts: fields.count("recovery_attempts", 0)?,
            last_recovery_at: fields.time("last_recovery_at")?,
            next_recovery_at: fields.time("next_recovery_at")?,
            recovered_at: fields.time("recovered_at")?,
            generation: fields.text("generation")?,
            retried_on_generations: fields.texts("retried_on_generations")?,
            operator_disposition: fields.disposition()?,
            operator_notes: fields.text("operator_notes")?,
            operator_actor: fields.text("operator_actor")?,
            error_fingerprint: fields.text("error_fingerprint")?,
            error_fingerprint_version: fields.small_integer("error_fingerprint_version")?,
            source_row: fields.object("source_row")?,
            source_created_at: fields.time("source_created_at")?,
            source_position: fields.big_integer("source_position")?,
            incarnation: fields.count("incarnation", 1)?,
            replay_credit: fields.text("replay_credit")?,
            replay_credit_at: fields.time("replay_credit_at")?,
            deferral: fields.deferral()?,
            policy_errors: fields.count("policy_errors", 0)?,
            policy_error_digest: fields.text("policy_error_digest")?,
            status_note: fields.text("status_note")?,
        })
    }

    /// A perspective row is re-emitted from its event, so that what names the event must be there.
    fn check_perspective(&self) -> Result<(), FieldError> {
        if self.source_table != SourceTable::PerspectiveEvents {
            return Ok(());
        }
        let needed = |field| FieldError::new(field, "", "is required for wh_perspective_events");
        self.stream_id.ok_or_else(|| needed("stream_id"))?;
        self.perspective_name.as_ref().filter(|name| !name.is_empty()).ok_or_else(|| needed("perspective_name"))?;
        let envelope = self.envelope.as_ref().ok_or_else(|| needed("envelope.event_id"))?;
        let event_id = Fields::parse_any(envelope.get())?
            .uuid("event_id")
            .map_err(|error| FieldError { field: "envelope.event_id".to_owned(), ..error })?;
        event_id.map(drop).ok_or_else(|| needed("envelope.event_id"))
    }

    fn check_states(&self) -> Result<(), FieldError> {
        let recovered = self.recovery_status == Some(RecoveryStatus::Recovered);
        match self.recovered_at {
            Some(time) if !recovered => {
                return Err(FieldError::new(
                    "recovered_at",
                    &time.to_string(),
                    "is set, but recovery_status is not Recovered",
                ));
            }
            None if recovered => {
                return Err(FieldError::new("recovered_at", "", "is required when recovery_status is Recovered"));
            }
            Some(_) | None => {}
        }
        if self.generation.as_deref() == Some("") {
            return Err(FieldError::new("generation", "\"\"", "is empty"));
        }
        match &self.error_fingerprint {
            Some(print) if print.chars().count() > 16 => {
                Err(FieldError::new("error_fingerprint", print, "is longer than 16 characters"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
