//! One entry for a policy.

use jiff::Timestamp;

use super::FieldError;
use super::fields::Fields;
use super::import::COLUMNS;
use crate::model::dead_letter::UNVERSIONED;
use crate::model::ids::new_id;
use crate::model::text::clean;
use crate::model::view::PolicyView;
use crate::model::{DeadLetter, Disposition, RecoveryStatus, SourceTable, fingerprint};

/// What a printed row has beside its columns: the earlier one of its stream that it waits for.
pub const WAITS_FOR: &str = "waits_for";
/// What recorded entries and a printed row have beside their columns; read and dropped.
const DROPPED: [&str; 4] = ["attributes", WAITS_FOR, "incarnations", "decisions"];

/// Reads a dead letter of which only `failure_reason` is required.
///
/// Absent: `source_table` is `wh_outbox`, `message_type` empty, times of creation `now`, ids new, the rest as the
/// table's defaults. `envelope` and `source_row` are allowed and dropped, as is what a recorded entry and a row that
/// `show` printed have beside their columns.
pub fn parse_entry(text: &str, now: Timestamp) -> Result<DeadLetter, FieldError> {
    entry(&parsed(text)?, now)
}

/// Reads what a policy saw of a dead letter, as [`super::write_entry`] wrote it. An error text without a fingerprint had
/// none.
pub fn parse_view(text: &str) -> Result<PolicyView, FieldError> {
    let fields = parsed(text)?;
    let mut entry = entry(&fields, Timestamp::UNIX_EPOCH)?;
    entry.error_fingerprint = fields.text("error_fingerprint")?;
    entry.error_fingerprint_version = fields.small_integer("error_fingerprint_version")?;
    let attributes = fields.named_texts("attributes")?.unwrap_or_default();
    Ok(PolicyView { entry, attributes: attributes.into_iter().collect() })
}

fn parsed(text: &str) -> Result<Fields<'_>, FieldError> {
    let known: Vec<&str> = COLUMNS.iter().copied().chain(DROPPED).collect();
    Fields::parse(text, &known)
}

fn entry(fields: &Fields<'_>, now: Timestamp) -> Result<DeadLetter, FieldError> {
    fields.object("envelope")?;
    fields.object("source_row")?;
    let error_text = fields.text("error_text")?.map(|text| clean(&text));
    let given_fingerprint = fields.text("error_fingerprint")?;
    let dead_lettered_at = fields.time("dead_lettered_at")?.unwrap_or(now);
    Ok(DeadLetter {
        failure_reason: fields.reason()?.ok_or_else(|| FieldError::missing("failure_reason"))?,
        dead_letter_id: fields.uuid("dead_letter_id")?.unwrap_or_else(|| new_id(now)),
        source_table: fields.source_table()?.unwrap_or(SourceTable::Outbox),
        source_id: fields.uuid("source_id")?.unwrap_or_else(|| new_id(now)),
        stream_id: fields.uuid("stream_id")?,
        message_type: fields.text("message_type")?.unwrap_or_default(),
        destination: fields.text("destination")?,
        perspective_name: fields.text("perspective_name")?,
        metadata: fields.object("metadata")?.map_or_else(|| "{}".to_owned(), |json| json.get().to_owned()),
        attempts_when_dlq: fields.count("attempts_when_dlq", 0)?.unwrap_or(0),
        dead_lettered_at,
        dead_lettered_by: fields.uuid("dead_lettered_by")?,
        recovery_status: fields.status()?.unwrap_or(RecoveryStatus::Pending),
        recovery_attempts: fields.count("recovery_attempts", 0)?.unwrap_or(0),
        last_recovery_at: fields.time("last_recovery_at")?,
        next_recovery_at: fields.time("next_recovery_at")?,
        recovered_at: fields.time("recovered_at")?,
        generation: fields.text("generation")?.unwrap_or_else(|| UNVERSIONED.to_owned()),
        retried_on_generations: fields.texts("retried_on_generations")?.unwrap_or_default(),
        operator_disposition: fields.disposition()?.unwrap_or(Disposition::None),
        operator_notes: fields.text("operator_notes")?,
        operator_actor: fields.text("operator_actor")?,
        error_fingerprint_version: match (&given_fingerprint, &error_text) {
            (None, Some(_)) => Some(fingerprint::VERSION),
            _ => fields.small_integer("error_fingerprint_version")?,
        },
        error_fingerprint: given_fingerprint.or_else(|| error_text.as_deref().map(fingerprint::fingerprint)),
        error_text,
        source_created_at: fields.time("source_created_at")?.or(Some(dead_lettered_at)),
        source_position: fields.big_integer("source_position")?,
        incarnation: fields.count("incarnation", 1)?.unwrap_or(1),
        replay_credit: fields.text("replay_credit")?,
        replay_credit_at: fields.time("replay_credit_at")?,
        deferral: fields.deferral()?,
        policy_errors: fields.count("policy_errors", 0)?.unwrap_or(0),
        policy_error_digest: fields.text("policy_error_digest")?,
        status_note: fields.text("status_note")?,
    })
}
