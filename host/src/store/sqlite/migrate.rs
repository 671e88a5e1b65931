//! Creating and updating the schema, beside tables that an application may have made.

use std::collections::HashSet;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};

use super::SqliteStore;
use super::catalogue::{self, Column};
use super::connect::Write;
use super::values::{Cell, time_text};
use crate::store::{Result, StoreError};

/// The migrations, by the names under which PostgreSQL has them too. Its functions are statements here.
pub(super) const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_create_work_tables", include_str!("../../../../migrations/sqlite/0001_create_work_tables.sql")),
    ("0002_create_dead_letters", include_str!("../../../../migrations/sqlite/0002_create_dead_letters.sql")),
    ("0003_create_indexes", include_str!("../../../../migrations/sqlite/0003_create_indexes.sql")),
];

const CREATE_BOOK: &str =
    "create table if not exists reprieve_migrations (name text not null primary key, applied_at text not null)";
const APPLIED: &str = "select name from reprieve_migrations";
const RECORD: &str = "insert into reprieve_migrations (name, applied_at) values (?, ?)";
const TABLES: &str = "select name from sqlite_master where type = 'table' and name like 'wh\\_%' escape '\\'";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("migrate::APPLIED", APPLIED), ("migrate::RECORD", RECORD), ("migrate::TABLES", TABLES)];

/// See [`crate::store::OperatorStore::migrate`].
pub(super) async fn migrate(store: &SqliteStore) -> Result<Vec<String>> {
    let mut write = store.write(None).await?;
    let applied = apply(&mut write).await.map_err(|error| store.fault.of("migrate", error))?;
    write.commit().await?;
    Ok(applied)
}

/// See [`crate::store::OperatorStore::check_schema`].
pub(super) async fn check_schema(store: &SqliteStore) -> Result<()> {
    let mut conn = store.read().await?;
    let applied = applied(&mut conn).await.map_err(|error| store.fault.of("look at the schema", error))?;
    if MIGRATIONS.iter().all(|(name, _)| applied.contains(*name)) {
        return Ok(());
    }
    Err(StoreError::NotMigrated { store: store.fault.store().to_owned() })
}

async fn applied(conn: &mut SqliteConnection) -> std::result::Result<HashSet<String>, sqlx::Error> {
    let rows = sqlx::query(APPLIED).fetch_all(conn).await?;
    Ok(rows.iter().filter_map(|row| Cell::at(row, 0).into_text()).collect())
}

async fn apply(write: &mut Write<'_>) -> std::result::Result<Vec<String>, sqlx::Error> {
    sqlx::query(CREATE_BOOK).execute(&mut write.conn).await?;
    let already = applied(&mut write.conn).await?;
    let mut done = Vec::new();
    // An empty database says which columns each migration wants.
    let mut empty = SqliteConnectOptions::new().in_memory(true).connect().await?;
    for (name, sql) in MIGRATIONS {
        sqlx::raw_sql(*sql).execute(&mut empty).await?;
        if already.contains(*name) {
            continue;
        }
        // Indexes need the columns, and tables need nothing: so what exists is completed after each file.
        sqlx::raw_sql(*sql).execute(&mut write.conn).await?;
        complete(&mut write.conn, &mut empty).await?;
        let query = sqlx::query(RECORD).bind(*name).bind(time_text(write.now));
        query.execute(&mut write.conn).await?;
        done.push((*name).to_owned());
    }
    Ok(done)
}

/// Adds the columns that tables made by others lack.
async fn complete(conn: &mut SqliteConnection, wanted: &mut SqliteConnection) -> std::result::Result<(), sqlx::Error> {
    for row in sqlx::query(TABLES).fetch_all(&mut *wanted).await? {
        let table = Cell::at(&row, 0).into_text().unwrap_or_default();
        let existing = catalogue::columns(conn, &table).await?;
        for column in catalogue::columns(wanted, &table).await? {
            if !existing.iter().any(|other| other.name.eq_ignore_ascii_case(&column.name)) {
                // Names and definitions come from our own migrations.
                let add = format!("alter table \"{table}\" add column {}", definition(&column));
                sqlx::query(AssertSqlSafe(add)).execute(&mut *conn).await?;
            }
        }
    }
    Ok(())
}

/// A column as it can be added to a table that has rows: required only with a default, which must be a constant.
fn definition(column: &Column) -> String {
    let mut definition = format!("{} {}", column.quoted(), column.declared);
    let is_constant = |text: &&String| text.starts_with('\'') || text.parse::<i64>().is_ok();
    if let Some(default) = column.default.as_ref().filter(is_constant) {
        if column.not_null {
            definition.push_str(" not null");
        }
        definition.push_str(" default ");
        definition.push_str(default);
    }
    definition
}
