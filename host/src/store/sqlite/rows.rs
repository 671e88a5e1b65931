//! Reading dead letters, and telling those that cannot be read.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::values::Cell;
use crate::model::{DeadLetter, Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};
use crate::store::Row;

/// The ids in batches, as a subquery. A claim looks at them all: a batch whose lease has ended still holds its rows
/// until it is dissolved.
macro_rules! batch_ids {
    () => {
        "select e.value from wh_recovery_batches b, json_each(b.ids) e"
    };
}
pub(super) use batch_ids;

/// The ids in batches whose lease has not ended at a time, by default the system's now.
macro_rules! live_ids {
    () => {
        $crate::store::sqlite::rows::live_ids!("strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')")
    };
    ($now:expr) => {
        concat!("select e.value from wh_recovery_batches b, json_each(b.ids) e where b.expires_at > ", $now)
    };
}
pub(super) use live_ids;

/// Every column of a dead letter `d` but its bodies; a row in a live batch is shown as recovering.
macro_rules! columns {
    () => {
        concat!(
            "d.dead_letter_id, d.source_table, d.source_id, d.stream_id, d.message_type, d.destination, \
             d.perspective_name, d.metadata, d.failure_reason, d.error_text, d.attempts_when_dlq, d.dead_lettered_at, \
             d.dead_lettered_by, d.recovery_attempts, d.last_recovery_at, d.next_recovery_at, d.recovered_at, \
             d.generation, d.retried_on_generations, d.operator_disposition, d.operator_notes, d.operator_actor, \
             d.error_fingerprint, d.error_fingerprint_version, d.source_created_at, d.source_position, \
             d.incarnation, d.replay_credit, d.replay_credit_at, d.deferral, d.policy_errors, \
             d.policy_error_digest, d.status_note, \
             case when d.recovery_status in (0, 1) then d.dead_letter_id in (",
            $crate::store::sqlite::rows::live_ids!(),
            ") else d.recovery_status end as recovery_status"
        )
    };
}
pub(super) use columns;

/// The list of generations with one more in it, once.
macro_rules! with_generation {
    ($generation:literal) => {
        concat!(
            "case when not json_valid(retried_on_generations) then json_array(",
            $generation,
            ") when exists (select 1 from json_each(retried_on_generations) where value = ",
            $generation,
            ") then retried_on_generations else json_insert(retried_on_generations, '$[#]', ",
            $generation,
            ") end"
        )
    };
}
pub(super) use with_generation;

/// Reads a row that was selected with `columns!`.
pub(super) fn read(row: &SqliteRow) -> Row {
    match dead_letter(&Cells(row)) {
        Ok(entry) => Row::Readable(entry),
        Err(problem) => Row::Unreadable {
            dead_letter_id: Cell::named(row, "dead_letter_id").into_text().unwrap_or_default(),
            problem,
        },
    }
}

type Read<T> = Result<T, String>;

fn dead_letter(row: &Cells<'_>) -> Read<DeadLetter> {
    Ok(DeadLetter {
        dead_letter_id: row.key("dead_letter_id")?,
        source_table: row.source_table()?,
        source_id: row.uuid("source_id").and_then(|id| required("source_id", id))?,
        stream_id: row.uuid("stream_id")?,
        message_type: row.required_text("message_type")?,
        destination: row.text("destination")?,
        perspective_name: row.text("perspective_name")?,
        metadata: row.required_text("metadata")?,
        failure_reason: FailureReason(row.number("failure_reason").and_then(|n| required("failure_reason", n))?),
        error_text: Cell::named(row.0, "error_text").into_text(),
        attempts_when_dlq: row.number("attempts_when_dlq")?.unwrap_or(0),
        dead_lettered_at: row.time("dead_lettered_at").and_then(|at| required("dead_lettered_at", at))?,
        dead_lettered_by: row.uuid("dead_lettered_by")?,
        recovery_status: row.named_number::<RecoveryStatus>("recovery_status")?,
        recovery_attempts: row.number("recovery_attempts")?.unwrap_or(0),
        last_recovery_at: row.time("last_recovery_at")?,
        next_recovery_at: row.time("next_recovery_at")?,
        recovered_at: row.time("recovered_at")?,
        generation: row.required_text("generation")?,
        retried_on_generations: row.list("retried_on_generations")?,
        operator_disposition: row.named_number::<Disposition>("operator_disposition")?,
        operator_notes: row.text("operator_notes")?,
        operator_actor: row.text("operator_actor")?,
        error_fingerprint: row.text("error_fingerprint")?,
        error_fingerprint_version: row.number("error_fingerprint_version")?,
        source_created_at: row.time("source_created_at")?,
        source_position: row.number("source_position")?,
        incarnation: row.number("incarnation")?.unwrap_or(1),
        replay_credit: row.text("replay_credit")?,
        replay_credit_at: row.time("replay_credit_at")?,
        deferral: row.text("deferral")?.as_deref().and_then(Deferral::from_name),
        policy_errors: row.number("policy_errors")?.unwrap_or(0),
        policy_error_digest: row.text("policy_error_digest")?,
        status_note: row.text("status_note")?,
    })
}

fn required<T>(column: &str, value: Option<T>) -> Read<T> {
    value.ok_or_else(|| format!("{column} is missing"))
}

/// A row whose values are read by what they are, not by what their column was declared as.
struct Cells<'r>(&'r SqliteRow);

impl Cells<'_> {
    fn text(&self, column: &str) -> Read<Option<String>> {
        match Cell::named(self.0, column) {
            Cell::BrokenText(_) => Err(format!("{column} is not UTF-8")),
            Cell::Blob(_) => Err(format!("{column} is a blob")),
            cell @ (Cell::Null | Cell::Integer(_) | Cell::Real(_) | Cell::Text(_)) => Ok(cell.into_text()),
        }
    }

    fn required_text(&self, column: &str) -> Read<String> {
        required(column, self.text(column)?)
    }

    fn number<N: TryFrom<i64>>(&self, column: &str) -> Read<Option<N>> {
        let cell = Cell::named(self.0, column);
        if cell == Cell::Null {
            return Ok(None);
        }
        let number = cell.integer().and_then(|number| N::try_from(number).ok());
        number.map(Some).ok_or_else(|| format!("{column} is no number in its range: {}", shown(cell)))
    }

    fn named_number<N: TryFrom<i64>>(&self, column: &str) -> Read<N>
    where
        N::Error: std::fmt::Display,
    {
        let number: i64 = required(column, self.number(column)?)?;
        N::try_from(number).map_err(|error| format!("{column}: {error}"))
    }

    fn uuid(&self, column: &str) -> Read<Option<Uuid>> {
        let cell = Cell::named(self.0, column);
        if cell == Cell::Null {
            return Ok(None);
        }
        cell.uuid().map(Some).ok_or_else(|| format!("{column} is no UUID: {}", shown(cell)))
    }

    /// The id that the row is addressed by, so only in the one form that addresses it.
    fn key(&self, column: &str) -> Read<Uuid> {
        let cell = Cell::named(self.0, column);
        match cell.uuid() {
            Some(id) if cell == Cell::Text(id.to_string()) => Ok(id),
            _ => Err(format!("{column} is no lower-case hyphenated UUID: {}", shown(cell))),
        }
    }

    fn time(&self, column: &str) -> Read<Option<Timestamp>> {
        let cell = Cell::named(self.0, column);
        if cell == Cell::Null {
            return Ok(None);
        }
        cell.time().map(Some).ok_or_else(|| format!("{column} is no time with a zone: {}", shown(cell)))
    }

    fn list(&self, column: &str) -> Read<Vec<String>> {
        let text = self.required_text(column)?;
        serde_json::from_str(&text)
            .map_err(|_| format!("{column} is no JSON array of texts: {}", shown(Cell::Text(text))))
    }

    fn source_table(&self) -> Read<SourceTable> {
        let name = self.required_text("source_table")?;
        let known = SourceTable::ALL.iter().copied().find(|table| table.name() == name);
        known.ok_or_else(|| format!("source_table is none of ours: {}", shown(Cell::Text(name))))
    }
}

/// A value for a message: quoted, and no more of it than a line takes.
fn shown(cell: Cell) -> String {
    let mut text = cell.into_text().unwrap_or_default();
    text.truncate(text.floor_char_boundary(80));
    format!("{text:?}")
}
