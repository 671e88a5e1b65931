//! SQL past the store: what an application does to the same tables, and what stands in them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Column, Row, TypeInfo, ValueRef};

/// Columns that hold JSON, which SQLite keeps as text.
const JSON_COLUMNS: &[&str] = &[
    "event_data",
    "metadata",
    "scope",
    "envelope",
    "source_row",
    "retried_on_generations",
    "ids",
    "streams",
    "rule",
    "inputs",
];

/// Connections of the test's own.
pub enum Raw {
    /// To a PostgreSQL database.
    Postgres(PgPool),
    /// To a SQLite file.
    Sqlite(SqlitePool),
}

impl Raw {
    /// Connects when first used.
    pub fn connect(url: &str) -> Self {
        if url.starts_with("postgres") {
            return Self::Postgres(PgPoolOptions::new().max_connections(3).connect_lazy(url).unwrap());
        }
        let path = url.strip_prefix("sqlite://").unwrap();
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(10));
        Self::Sqlite(SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options))
    }

    /// Runs statements; what the database says when it refuses.
    pub async fn try_execute(&self, sql: &str) -> Result<(), String> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Postgres(pool) => sql.execute(pool).await.map(drop),
            Self::Sqlite(pool) => sql.execute(pool).await.map(drop),
        }
        .map_err(|error| error.to_string())
    }

    /// The rows of a query as JSON objects, alike on both engines: times in UTC with six decimals, JSON as JSON.
    pub async fn query(&self, sql: &str) -> Vec<Map<String, Value>> {
        let rows: Vec<Map<String, Value>> = match self {
            Self::Postgres(pool) => {
                let all = format!("select coalesce(json_agg(t), '[]')::text from ({sql}) t");
                let text: String = sqlx::query_scalar(AssertSqlSafe(all)).fetch_one(pool).await.expect(sql);
                serde_json::from_str(&text).unwrap()
            }
            Self::Sqlite(pool) => {
                let mut connection = pool.acquire().await.unwrap();
                // Another connection may have added columns; this makes the connection read the schema again.
                sqlx::query("select count(*) from sqlite_schema").fetch_one(&mut *connection).await.unwrap();
                let query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
                let rows = query.fetch_all(&mut *connection).await.expect(sql);
                rows.iter().map(sqlite_row).collect()
            }
        };
        rows.into_iter().map(|row| row.into_iter().map(|(name, value)| (name, alike(value))).collect()).collect()
    }
}

fn sqlite_row(row: &SqliteRow) -> Map<String, Value> {
    row.columns().iter().map(|column| (column.name().to_owned(), sqlite_value(row, column.name()))).collect()
}

fn sqlite_value(row: &SqliteRow, name: &str) -> Value {
    let value = row.try_get_raw(name).unwrap();
    if value.is_null() {
        return Value::Null;
    }
    let kind = value.type_info().name().to_owned();
    match kind.as_str() {
        "INTEGER" | "BOOLEAN" if name == "is_event" => Value::from(row.get_unchecked::<i64, _>(name) != 0),
        "INTEGER" | "BOOLEAN" => Value::from(row.get_unchecked::<i64, _>(name)),
        "REAL" => Value::from(row.get_unchecked::<f64, _>(name)),
        "BLOB" => Value::from(row.get_unchecked::<Vec<u8>, _>(name)),
        _ => {
            let text = String::from_utf8_lossy(row.get_unchecked::<&[u8], _>(name)).into_owned();
            let json = JSON_COLUMNS.contains(&name).then(|| serde_json::from_str(&text).ok()).flatten();
            json.unwrap_or(Value::String(text))
        }
    }
}

/// A time in one form; anything else as it is.
fn alike(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() >= 20 && text.as_bytes()[10] == b'T' => {
            text.parse::<Timestamp>().map_or(Value::String(text), |time| Value::from(super::time_text(time)))
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => other,
    }
}
