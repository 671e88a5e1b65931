//! Re-emission: putting the message of a dead letter back into its source table.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

use super::body::{Members, is_in_envelope};
use super::catalogue::{self, Column};
use super::fault::{describe, is_infrastructure};
use super::guard;
use super::values::{Cell, time_text};
use crate::model::text::clean;
use crate::model::{SourceTable, notes};
use crate::store::Outcome;

pub(super) const BODY: &str = "select d.source_table, d.source_id, d.stream_id, d.message_type, d.destination, \
    d.perspective_name, d.metadata, d.envelope, d.source_row, d.source_created_at, d.replay_credit, \
    (select n.dead_letter_id from wh_dead_letters n where n.source_table = d.source_table \
    and n.source_id = d.source_id and n.incarnation > d.incarnation \
    order by n.incarnation desc, n.dead_lettered_at desc, n.dead_letter_id desc limit 1) as newer \
    from wh_dead_letters d where d.dead_letter_id = ? and d.recovery_status < 2 and d.recovered_at is null \
    and (? or d.operator_disposition not in (2, 3))";
pub(super) const EVENT_EXISTS: &str = "select 1 from wh_event_store where event_id in (?, ?)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("source::BODY", BODY), ("source::EVENT_EXISTS", EVENT_EXISTS)];

/// What came of an insert, and what `status_note` is to say of it.
pub(super) struct Emission {
    pub(super) outcome: Outcome,
    pub(super) note: Option<String>,
    /// The row's credit now.
    pub(super) credit: Option<String>,
}

impl Emission {
    const fn new(outcome: Outcome, note: Option<String>) -> Self {
        Self { outcome, note, credit: None }
    }

    fn failed(problem: &str) -> Self {
        Self::new(Outcome::Failed(problem.to_owned()), Some(clean(&format!("not re-emitted: {problem}"))))
    }
}

/// The columns of the source tables, looked up once in a transaction.
#[derive(Default)]
pub(super) struct Tables(HashMap<SourceTable, Arc<[Column]>>);

impl Tables {
    async fn columns(&mut self, conn: &mut SqliteConnection, table: SourceTable) -> Result<Arc<[Column]>, sqlx::Error> {
        if let Some(columns) = self.0.get(&table) {
            return Ok(Arc::clone(columns));
        }
        let columns: Arc<[Column]> = catalogue::columns(conn, table.name()).await?.into();
        self.0.insert(table, Arc::clone(&columns));
        Ok(columns)
    }
}

/// Who wants a row back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The host, which leaves a row alone that an operator has held or given up since.
    ByPolicy,
    /// An application that names the row.
    ByName,
}

async fn body(conn: &mut SqliteConnection, id: Uuid, asked: Asked) -> Result<Option<SqliteRow>, sqlx::Error> {
    sqlx::query(BODY).bind(id.to_string()).bind(asked == Asked::ByName).fetch_optional(conn).await
}

/// Inserts the source row of a dead letter that is open, in a transaction of the caller's; of any other it is lost.
/// An older death of a message that has died again is superseded, and nothing is inserted. With a `problem` the row fails
/// for it, without a try.
///
/// A row that cannot be inserted leaves the transaction as it was and is an outcome. After an error the transaction is
/// over: the system's, or one of this row that took it along.
pub(super) async fn re_emit(
    conn: &mut SqliteConnection,
    tables: &mut Tables,
    id: Uuid,
    asked: Asked,
    problem: Option<&str>,
    now: Timestamp,
) -> Result<Emission, sqlx::Error> {
    let row = body(conn, id, asked).await?;
    let Some(row) = row else {
        return Ok(Emission::new(Outcome::Lost, None));
    };
    if let Some(newer) = Cell::named(&row, "newer").into_text() {
        return Ok(Emission::new(Outcome::Superseded, Some(notes::superseded(newer))));
    }
    let credit = Cell::named(&row, "replay_credit").into_text();
    if let Some(problem) = problem {
        return Ok(Emission { credit, ..Emission::failed(problem) });
    }
    guard::open(&mut *conn).await?;
    let (mut emission, refused) = match insert(conn, tables, &row, now).await {
        Ok(emission) => (emission, None),
        Err(Refusal::System(error)) => return Err(error),
        Err(Refusal::Database(error)) => (Emission::failed(&describe(&error)), Some(error)),
        Err(Refusal::Row(problem)) => (Emission::failed(&problem), None),
    };
    if emission.outcome != Outcome::Recovered
        && let Err(error) = guard::undo(&mut *conn).await
    {
        // A trigger may roll the whole transaction back.
        return Err(refused.unwrap_or(error));
    }
    guard::keep(&mut *conn).await?;
    emission.credit = credit;
    Ok(emission)
}

enum Refusal {
    System(sqlx::Error),
    Database(sqlx::Error),
    Row(String),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        if is_infrastructure(&error) { Self::System(error) } else { Self::Database(error) }
    }
}

async fn insert(
    conn: &mut SqliteConnection,
    tables: &mut Tables,
    row: &SqliteRow,
    now: Timestamp,
) -> Result<Emission, Refusal> {
    let message = Message::read(row, now).map_err(Refusal::Row)?;
    if let Some(event) = message.event()? {
        let lower = event.to_lowercase();
        let query = sqlx::query(EVENT_EXISTS).bind(lower.clone()).bind(event.to_uppercase());
        if query.fetch_optional(&mut *conn).await?.is_none() {
            let note = "not re-emitted: its event is no longer in wh_event_store";
            return Ok(Emission::new(Outcome::Gone, Some(note.to_owned())));
        }
    }
    let table = message.table.name();
    let columns = tables.columns(conn, message.table).await?;
    let values: Vec<_> = columns.iter().filter_map(|column| message.value(column).map(|cell| (column, cell))).collect();
    let names = values.iter().map(|(column, _)| column.quoted()).collect::<Vec<_>>().join(", ");
    let places = values.iter().map(|(_, cell)| place(cell)).collect::<Vec<_>>().join(", ");
    // Names come from the catalogue and are quoted; values are bound.
    let insert = format!("insert into {table} ({names}) values ({places}) on conflict do nothing");
    let mut query = sqlx::query(AssertSqlSafe(insert));
    for (_, cell) in values {
        query = cell.bind_to(query);
    }
    if query.execute(conn).await?.rows_affected() > 0 {
        return Ok(Emission::new(Outcome::Recovered, None));
    }
    Ok(Emission::new(Outcome::SourcePresent, Some(format!("not re-emitted: {table} has this row already"))))
}

const fn place(cell: &Cell) -> &'static str {
    match cell {
        Cell::BrokenText(_) => "cast(? as text)",
        Cell::Null | Cell::Integer(_) | Cell::Real(_) | Cell::Text(_) | Cell::Blob(_) => "?",
    }
}

/// A dead letter's message, as its source table is to hold it.
struct Message<'r> {
    table: SourceTable,
    row: &'r SqliteRow,
    envelope: Members,
    source_row: Option<Members>,
    now: Timestamp,
}

impl<'r> Message<'r> {
    fn read(row: &'r SqliteRow, now: Timestamp) -> Result<Self, String> {
        let text = |column| Cell::named(row, column).into_text();
        let name = text("source_table").unwrap_or_default();
        let table = SourceTable::ALL.iter().copied().find(|table| table.name() == name);
        let table = table.ok_or_else(|| format!("source_table {name:?} is none of ours"))?;
        let envelope = text("envelope").and_then(|text| Members::parse(&text));
        let envelope = envelope.ok_or("its envelope is no JSON object")?;
        let source_row = match text("source_row") {
            Some(text) => Some(Members::parse(&text).ok_or("its source_row is no JSON object")?),
            None => None,
        };
        Ok(Self { table, row, envelope, source_row, now })
    }

    /// The event that must still be there.
    fn event(&self) -> Result<Option<String>, Refusal> {
        match self.table {
            SourceTable::Outbox | SourceTable::Inbox => Ok(None),
            SourceTable::PerspectiveEvents => {
                let event = self.kept("event_id").and_then(Cell::into_text);
                event.map(Some).ok_or_else(|| Refusal::Row("its envelope has no event_id".to_owned()))
            }
        }
    }

    /// What a column is to hold; `None` leaves it to the table's default.
    fn value(&self, column: &Column) -> Option<Cell> {
        let name = column.name.as_str();
        let value = match name {
            "attempts" => Some(Cell::Integer(0)),
            "instance_id" | "lease_expiry" | "error" | "scheduled_for" | "processed_at" | "published_at"
            | "claimed_at" => (!column.not_null).then_some(Cell::Null),
            "status" | "failure_reason" => None,
            "stream_id" if self.table != SourceTable::PerspectiveEvents => {
                self.kept(name).map(|cell| if cell.uuid().is_some_and(|id| id.is_nil()) { Cell::Null } else { cell })
            }
            _ if is_in_envelope(self.table, name) => self.part(name),
            _ => self.kept(name),
        };
        value.or_else(|| if column.may_be_absent() { None } else { self.needed(name) })
    }

    /// A value as it stood in the source row; without one, what the dead letter itself says.
    fn kept(&self, name: &str) -> Option<Cell> {
        let kept = self.source_row.as_ref().and_then(|source_row| source_row.value(name));
        kept.or_else(|| self.rebuilt(name))
    }

    fn rebuilt(&self, name: &str) -> Option<Cell> {
        let perspective = self.table == SourceTable::PerspectiveEvents;
        match name {
            _ if name == catalogue::key(self.table) => Some(Cell::named(self.row, "source_id")),
            "handler_name" => Some(Cell::Text("recovered".to_owned())),
            "message_type" | "destination" if !perspective => Some(Cell::named(self.row, name)),
            "stream_id" | "perspective_name" => Some(Cell::named(self.row, name)),
            "created_at" | "received_at" => {
                Some(Cell::named(self.row, "source_created_at")).filter(|at| *at != Cell::Null)
            }
            "event_id" if perspective => self.envelope.value(name),
            _ => None,
        }
    }

    fn part(&self, name: &str) -> Option<Cell> {
        self.envelope.part(name).or_else(|| (name == "metadata").then(|| Cell::named(self.row, name)))
    }

    /// A value for a column that needs one, in a table whose maker gave it no default.
    fn needed(&self, name: &str) -> Option<Cell> {
        match name {
            "status" => Some(Cell::Integer(i64::from(self.table != SourceTable::PerspectiveEvents))),
            "failure_reason" => Some(Cell::Integer(99)),
            "is_event" => Some(Cell::Integer(0)),
            "created_at" | "received_at" => Some(Cell::Text(time_text(self.now))),
            "event_data" | "metadata" => Some(Cell::Text("{}".to_owned())),
            _ => None,
        }
    }
}
