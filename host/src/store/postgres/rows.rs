//! Reading dead letters; one that cannot be read does not keep the others from being read.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{Column as _, Decode, Postgres, Row as _, Type};
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
    row.try_get(column).map_err(|error| unreadable(column, error))
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
    T::try_from(i64::from(number)).map_err(|error| unreadable(column, error))
}

/// The columns of [`entry_columns`] one after the other. Finding each by its name would take longer than reading it.
struct Columns<'r> {
    row: &'r PgRow,
    next: usize,
}

impl<'r> Columns<'r> {
    fn of(row: &'r PgRow) -> Self {
        let first = row.columns().iter().position(|column| column.name() == "dead_letter_id");
        Self { row, next: first.unwrap_or(0) }
    }

    fn get<T>(&mut self, column: &'static str) -> Result<T, String>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        let at = self.next;
        self.next += 1;
        debug_assert_eq!(self.row.try_column(at).map(sqlx::Column::name).ok(), Some(column), "read out of order");
        self.row.try_get(at).map_err(|error| unreadable(column, error))
    }

    fn time(&mut self, column: &'static str) -> Result<Timestamp, String> {
        self.get::<jiff_sqlx::Timestamp>(column).map(jiff_sqlx::Timestamp::to_jiff)
    }

    fn optional_time(&mut self, column: &'static str) -> Result<Option<Timestamp>, String> {
        Ok(self.get::<Option<jiff_sqlx::Timestamp>>(column)?.map(jiff_sqlx::Timestamp::to_jiff))
    }

    fn numbered<T>(&mut self, column: &'static str) -> Result<T, String>
    where
        T: TryFrom<i64>,
        T::Error: std::fmt::Display,
    {
        let number = self.get::<i32>(column)?;
        T::try_from(i64::from(number)).map_err(|error| unreadable(column, error))
    }
}

fn unreadable(column: &str, error: impl std::fmt::Display) -> String {
    format!("column {column} cannot be read: {error}")
}

fn dead_letter(row: &PgRow) -> Result<DeadLetter, String> {
    let mut row = Columns::of(row);
    // In the order of the columns.
    Ok(DeadLetter {
        dead_letter_id: row.get("dead_letter_id")?,
        source_table: row
            .get::<&str>("source_table")?
            .parse::<SourceTable>()
            .map_err(|error| format!("column source_table cannot be read: {error}"))?,
        source_id: row.get("source_id")?,
        stream_id: row.get("stream_id")?,
        message_type: row.get("message_type")?,
        destination: row.get("destination")?,
        perspective_name: row.get("perspective_name")?,
        metadata: row.get("metadata")?,
        failure_reason: FailureReason(row.get("failure_reason")?),
        error_text: row.get("error_text")?,
        attempts_when_dlq: row.get("attempts_when_dlq")?,
        dead_lettered_at: row.time("dead_lettered_at")?,
        dead_lettered_by: row.get("dead_lettered_by")?,
        recovery_status: row.numbered::<RecoveryStatus>("recovery_status")?,
        recovery_attempts: row.get("recovery_attempts")?,
        last_recovery_at: row.optional_time("last_recovery_at")?,
        next_recovery_at: row.optional_time("next_recovery_at")?,
        recovered_at: row.optional_time("recovered_at")?,
        generation: row.get("generation")?,
        retried_on_generations: row.get("retried_on_generations")?,
        operator_disposition: row.numbered::<Disposition>("operator_disposition")?,
        operator_notes: row.get("operator_notes")?,
        operator_actor: row.get("operator_actor")?,
        error_fingerprint: row.get("error_fingerprint")?,
        error_fingerprint_version: row.get("error_fingerprint_version")?,
        source_created_at: row.optional_time("source_created_at")?,
        source_position: row.get("source_position")?,
        incarnation: row.get("incarnation")?,
        replay_credit: row.get("replay_credit")?,
        replay_credit_at: row.optional_time("replay_credit_at")?,
        deferral: row.get::<Option<&str>>("deferral")?.and_then(Deferral::from_name),
        policy_errors: row.get("policy_errors")?,
        policy_error_digest: row.get("policy_error_digest")?,
        status_note: row.get("status_note")?,
    })
}
