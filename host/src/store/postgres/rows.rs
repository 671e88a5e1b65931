//! Reading dead letters; one that cannot be read does not keep the others from being read.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row as _, Type};
use uuid::Uuid;

use crate::model::{DeadLetter, Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};
use crate::store::Row;

/// The columns of a dead letter without its body, as [`read`] expects them.
macro_rules! entry_columns {
    () => {
        "dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name, \
         metadata::text as metadata, failure_reason, error_text, attempts_when_dlq, dead_lettered_at, \
         dead_lettered_by, recovery_status, recovery_attempts, last_recovery_at, next_recovery_at, recovered_at, \
         generation, retried_on_generations, operator_disposition, operator_notes, operator_actor, \
         error_fingerprint, error_fingerprint_version, source_created_at, source_position, incarnation, \
         replay_credit, replay_credit_at, deferral, policy_errors, policy_error_digest, status_note"
    };
}
pub(super) use entry_columns;

/// Reads a row that has the columns of a dead letter.
pub(super) fn read(row: &PgRow) -> Row {
    match dead_letter(row) {
        Ok(entry) => Row::Readable(entry),
        Err(problem) => Row::Unreadable {
            dead_letter_id: get::<Uuid>(row, "dead_letter_id").map_or_else(|_| "?".to_owned(), |id| id.to_string()),
            problem,
        },
    }
}

/// A column's value, or what is wrong with it.
pub(super) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T, String>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column).map_err(|error| format!("column {column} cannot be read: {error}"))
}

/// A time that is there.
pub(super) fn time(row: &PgRow, column: &str) -> Result<Timestamp, String> {
    get::<jiff_sqlx::Timestamp>(row, column).map(jiff_sqlx::Timestamp::to_jiff)
}

/// A time that may be NULL.
pub(super) fn optional_time(row: &PgRow, column: &str) -> Result<Option<Timestamp>, String> {
    Ok(get::<Option<jiff_sqlx::Timestamp>>(row, column)?.map(jiff_sqlx::Timestamp::to_jiff))
}

/// A number that stands for a value of a closed set.
pub(super) fn numbered<T>(row: &PgRow, column: &str) -> Result<T, String>
where
    T: TryFrom<i64>,
    T::Error: std::fmt::Display,
{
    let number = get::<i32>(row, column)?;
    T::try_from(i64::from(number)).map_err(|error| format!("column {column} cannot be read: {error}"))
}

fn dead_letter(row: &PgRow) -> Result<DeadLetter, String> {
    Ok(DeadLetter {
        dead_letter_id: get(row, "dead_letter_id")?,
        source_table: get::<&str>(row, "source_table")?
            .parse::<SourceTable>()
            .map_err(|error| format!("column source_table cannot be read: {error}"))?,
        source_id: get(row, "source_id")?,
        stream_id: get(row, "stream_id")?,
        message_type: get(row, "message_type")?,
        destination: get(row, "destination")?,
        perspective_name: get(row, "perspective_name")?,
        metadata: get(row, "metadata")?,
        failure_reason: FailureReason(get(row, "failure_reason")?),
        error_text: get(row, "error_text")?,
        attempts_when_dlq: get(row, "attempts_when_dlq")?,
        dead_lettered_at: time(row, "dead_lettered_at")?,
        dead_lettered_by: get(row, "dead_lettered_by")?,
        recovery_status: numbered::<RecoveryStatus>(row, "recovery_status")?,
        recovery_attempts: get(row, "recovery_attempts")?,
        last_recovery_at: optional_time(row, "last_recovery_at")?,
        next_recovery_at: optional_time(row, "next_recovery_at")?,
        recovered_at: optional_time(row, "recovered_at")?,
        generation: get(row, "generation")?,
        retried_on_generations: get(row, "retried_on_generations")?,
        operator_disposition: numbered::<Disposition>(row, "operator_disposition")?,
        operator_notes: get(row, "operator_notes")?,
        operator_actor: get(row, "operator_actor")?,
        error_fingerprint: get(row, "error_fingerprint")?,
        error_fingerprint_version: get(row, "error_fingerprint_version")?,
        source_created_at: optional_time(row, "source_created_at")?,
        source_position: get(row, "source_position")?,
        incarnation: get(row, "incarnation")?,
        replay_credit: get(row, "replay_credit")?,
        replay_credit_at: optional_time(row, "replay_credit_at")?,
        deferral: get::<Option<&str>>(row, "deferral")?.and_then(Deferral::from_name),
        policy_errors: get(row, "policy_errors")?,
        policy_error_digest: get(row, "policy_error_digest")?,
        status_note: get(row, "status_note")?,
    })
}
