//! Moving a row of a source table to the dead letters.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::SqliteStore;
use super::body::Body;
use super::catalogue;
use super::connect::Write;
use super::inherit::{Inheritance, inherit};
use super::values::{Cell, json_list, time_text};
use crate::model::{SourceTable, fingerprint, text};
use crate::store::{Move, Moved, Result};

const INSERT: &str = "insert into wh_dead_letters (dead_letter_id, source_table, source_id, stream_id, message_type, \
    destination, perspective_name, envelope, metadata, source_row, failure_reason, error_text, attempts_when_dlq, \
    dead_lettered_at, dead_lettered_by, generation, error_fingerprint, error_fingerprint_version, source_created_at, \
    source_position, recovery_attempts, last_recovery_at, retried_on_generations, incarnation) \
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const POSITION: &str = "select commit_sequence from wh_event_store where event_id in (?, ?)";
/// The message type of every perspective row.
const PERSPECTIVE_TYPE: &str = "perspective_event";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("moving::INSERT", INSERT), ("moving::POSITION", POSITION)];

type SourceRow = [(String, Cell)];

/// See [`crate::store::Verbs::move_to_dead_letters`].
pub(super) async fn move_to_dead_letters(store: &SqliteStore, request: &Move) -> Result<Option<Moved>> {
    const ACTION: &str = "move a row to the dead letters";
    let mut write = store.write(request.now).await?;
    let failed = |error| store.fault.of(ACTION, error);
    let row = catalogue::source_row(&mut write.conn, request.source_table, request.source_id).await.map_err(failed)?;
    let Some(row) = row else {
        write.commit().await?;
        return Ok(None);
    };
    move_row(&mut write, request, &row).await.map_err(failed)?;
    write.commit().await?;
    store.signals.ready();
    Ok(Some(Moved { dead_letter_id: request.dead_letter_id }))
}

/// Moves a row that has been read in this transaction.
pub(super) async fn move_row(
    write: &mut Write<'_>,
    request: &Move,
    row: &SourceRow,
) -> std::result::Result<(), sqlx::Error> {
    delete(&mut write.conn, request).await?;
    insert(write, request, row).await
}

async fn delete(conn: &mut SqliteConnection, request: &Move) -> std::result::Result<(), sqlx::Error> {
    let table = request.source_table;
    // Both names are ours.
    let delete = format!("delete from {} where {} in (?, ?)", table.name(), catalogue::key(table));
    let id = request.source_id.to_string();
    sqlx::query(AssertSqlSafe(delete)).bind(id.clone()).bind(id.to_uppercase()).execute(conn).await?;
    Ok(())
}

async fn insert(write: &mut Write<'_>, request: &Move, row: &SourceRow) -> std::result::Result<(), sqlx::Error> {
    let table = request.source_table;
    let facts = Facts::of(table, row);
    let body = Body::of(table, row);
    let position = position(&mut write.conn, table, row).await?;
    let error_text = request.error_text.as_deref().map(text::clean);
    let fingerprint = error_text.as_deref().map(fingerprint::fingerprint);
    let version = fingerprint.as_ref().map(|_| fingerprint::VERSION);
    let Inheritance { recovery_attempts, last_recovery_at, retried_on_generations, incarnation } =
        inherit(&mut write.conn, table, request.source_id, &request.generation).await?;
    sqlx::query(INSERT)
        .bind(request.dead_letter_id.to_string())
        .bind(table.name())
        .bind(request.source_id.to_string())
        .bind(facts.stream_id)
        .bind(facts.message_type)
        .bind(facts.destination)
        .bind(facts.perspective_name)
        .bind(body.envelope)
        .bind(body.metadata)
        .bind(body.source_row)
        .bind(request.failure_reason.0)
        .bind(error_text)
        .bind(facts.attempts)
        .bind(time_text(write.now))
        .bind(request.instance_id.map(|id| id.to_string()))
        .bind(request.generation.clone())
        .bind(fingerprint)
        .bind(version)
        .bind(facts.source_created_at)
        .bind(position)
        .bind(recovery_attempts)
        .bind(last_recovery_at.map(time_text))
        .bind(json_list(retried_on_generations))
        .bind(incarnation)
        .execute(&mut write.conn)
        .await?;
    Ok(())
}

/// The event's place among all, for perspective rows.
async fn position(
    conn: &mut SqliteConnection,
    table: SourceTable,
    row: &SourceRow,
) -> std::result::Result<Option<i64>, sqlx::Error> {
    let event = match table {
        SourceTable::Outbox | SourceTable::Inbox => None,
        SourceTable::PerspectiveEvents => cell(row, "event_id").clone().into_text(),
    };
    let Some(event) = event else {
        return Ok(None);
    };
    let lower = event.to_lowercase();
    let found = sqlx::query(POSITION).bind(lower.clone()).bind(lower.to_uppercase()).fetch_optional(conn).await?;
    Ok(found.and_then(|row| Cell::at(&row, 0).integer()))
}

/// What a dead letter says of its source row. What cannot be read is left out here; the source row keeps it.
struct Facts {
    stream_id: Option<String>,
    message_type: String,
    destination: Option<String>,
    perspective_name: Option<String>,
    attempts: i32,
    source_created_at: Option<String>,
}

impl Facts {
    fn of(table: SourceTable, row: &SourceRow) -> Self {
        let text = |name| cell(row, name).clone().into_text().map(|text| text.replace('\0', "\u{2400}"));
        let perspective = table == SourceTable::PerspectiveEvents;
        let stream = cell(row, "stream_id").uuid().filter(|id| perspective || !id.is_nil());
        let message_type = if perspective { None } else { Some(text("message_type").unwrap_or_default()) };
        let created = if table == SourceTable::Inbox { "received_at" } else { "created_at" };
        let attempts = cell(row, "attempts").integer().and_then(|number| i32::try_from(number).ok());
        Self {
            stream_id: stream.map(|id| id.to_string()),
            message_type: message_type.unwrap_or_else(|| PERSPECTIVE_TYPE.to_owned()),
            destination: if table == SourceTable::Outbox { text("destination") } else { None },
            perspective_name: if perspective { text("perspective_name") } else { None },
            attempts: attempts.unwrap_or(0).max(0),
            source_created_at: cell(row, created).time().map(time_text),
        }
    }
}

pub(super) fn cell<'r>(row: &'r SourceRow, name: &str) -> &'r Cell {
    row.iter().find(|(column, _)| column == name).map_or(&Cell::Null, |(_, cell)| cell)
}
