//! The columns that a table really has.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::values::Cell;
use crate::model::SourceTable;

pub(super) const COLUMNS: &str =
    "select name, type, \"notnull\", dflt_value, pk from pragma_table_xinfo(?) where hidden = 0 order by cid";

/// A column that can be written.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) declared: String,
    pub(super) not_null: bool,
    /// The default as SQL text.
    pub(super) default: Option<String>,
}

impl Column {
    /// The name as an SQL identifier.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// Whether an insert may leave it out.
    pub(super) const fn may_be_absent(&self) -> bool {
        !self.not_null || self.default.is_some()
    }
}

/// The columns of a table that are neither generated nor hidden; none when there is no such table.
pub(super) async fn columns(conn: &mut SqliteConnection, table: &str) -> Result<Vec<Column>, sqlx::Error> {
    let rows = sqlx::query(COLUMNS).bind(table.to_owned()).fetch_all(conn).await?;
    let column = |row: &sqlx::sqlite::SqliteRow| {
        let text = |index| Cell::at(row, index).into_text();
        let flag = |index| Cell::at(row, index).integer().unwrap_or(0) > 0;
        Column {
            name: text(0).unwrap_or_default(),
            declared: text(1).unwrap_or_default(),
            not_null: flag(2) || flag(4),
            default: text(3),
        }
    };
    Ok(rows.iter().map(column).collect())
}

/// The column that names a row of a source table.
pub(super) const fn key(table: SourceTable) -> &'static str {
    match table {
        SourceTable::Outbox | SourceTable::Inbox => "message_id",
        SourceTable::PerspectiveEvents => "event_work_id",
    }
}

/// Reads one row of a source table by its id, written in lower or upper case.
pub(super) async fn source_row(
    conn: &mut SqliteConnection,
    table: SourceTable,
    id: uuid::Uuid,
) -> Result<Option<Vec<(String, Cell)>>, sqlx::Error> {
    let columns = columns(conn, table.name()).await?;
    let list = columns.iter().map(Column::quoted).collect::<Vec<_>>().join(", ");
    // Names come from the catalogue and are quoted; no text of a row is part of the statement.
    let select = format!("select {list} from {} where {} in (?, ?)", table.name(), key(table));
    let id = id.to_string();
    let query = sqlx::query(AssertSqlSafe(select)).bind(id.clone()).bind(id.to_uppercase());
    let row = query.fetch_optional(conn).await?;
    let cells = |row: &sqlx::sqlite::SqliteRow| {
        let cell = |(index, column): (usize, &Column)| (column.name.clone(), Cell::at(row, index));
        columns.iter().enumerate().map(cell).collect()
    };
    Ok(row.as_ref().map(cells))
}
