//! Importing dead letters.

use std::collections::HashSet;

use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use uuid::Uuid;

use super::SqliteStore;
use super::connect::Write;
use super::fault::{describe, is_constraint};
use super::inherit::{Inheritance, inherit};
use super::values::{Cell, json_ids, json_list, time_text};
use crate::model::{FailureReason, RecoveryStatus, SourceTable, fingerprint, text};
use crate::store::{Import, Imported, NewDeadLetter, Result, StoreError};

macro_rules! into_columns {
    () => {
        "insert into wh_dead_letters (dead_letter_id, source_table, source_id, stream_id, message_type, destination, \
         perspective_name, envelope, metadata, failure_reason, error_text, attempts_when_dlq, dead_lettered_at, \
         dead_lettered_by, recovery_status, recovery_attempts, last_recovery_at, next_recovery_at, recovered_at, \
         generation, retried_on_generations, operator_disposition, operator_notes, operator_actor, error_fingerprint, \
         error_fingerprint_version, source_row, source_created_at, source_position, incarnation, replay_credit, \
         replay_credit_at, deferral, policy_errors, policy_error_digest, status_note) values "
    };
}
macro_rules! places {
    () => {
        "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    };
}
macro_rules! ten {
    ($one:expr) => {
        concat!(
            $one, ", ", $one, ", ", $one, ", ", $one, ", ", $one, ", ", $one, ", ", $one, ", ", $one, ", ", $one, ", ",
            $one
        )
    };
}
const INSERT: &str = concat!(into_columns!(), places!(), " on conflict (dead_letter_id) do nothing");
const INSERT_GROUP: &str = concat!(into_columns!(), ten!(ten!(places!())));
/// Rows in one statement: what an import costs is the way to the database and back.
const GROUP: usize = 100;
const DIED_BEFORE: &str = "select distinct source_table, source_id from wh_dead_letters \
    where source_id in (select value from json_each(?))";
const CHUNK: usize = 1000;

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("import::INSERT", INSERT), ("import::INSERT_GROUP", INSERT_GROUP), ("import::DIED_BEFORE", DIED_BEFORE)];

type Insert<'q> = Query<'q, Sqlite, SqliteArguments>;

/// See [`crate::store::OperatorStore::import`].
pub(super) async fn import(store: &SqliteStore, request: &Import<'_>) -> Result<Imported> {
    let failed = |error| store.fault.of("import dead letters", error);
    let mut write = store.write(request.now).await?;
    let (mut imported, mut skipped) = (0, HashSet::new());
    let mut died = HashSet::new();
    for rows in request.by_death(write.now).chunks(CHUNK) {
        died_before(&mut write.conn, rows, &mut died).await.map_err(failed)?;
        for group in rows.chunks(GROUP) {
            let first: Vec<_> = group.iter().map(|row| died.insert((row.source_table, row.source_id))).collect();
            let whole = group.len() == GROUP && first.iter().all(|first| *first);
            if whole && insert_group(&mut write, group).await.map_err(failed)? {
                imported += GROUP as u64;
                continue;
            }
            for (row, first) in group.iter().zip(first) {
                match insert(&mut write, row, !first).await {
                    Ok(true) => imported += 1,
                    Ok(false) => {
                        skipped.insert(row.dead_letter_id);
                    }
                    Err(error) if is_constraint(&error) => return Err(refused(row, &describe(&error))),
                    Err(error) => return Err(failed(error)),
                }
            }
        }
    }
    write.commit().await?;
    if imported > 0 {
        store.signals.ready();
    }
    let skipped = request.rows.iter().map(|row| row.dead_letter_id).filter(|id| skipped.contains(id)).collect();
    Ok(Imported { imported, skipped })
}

fn refused(row: &NewDeadLetter, problem: &str) -> StoreError {
    StoreError::BadRow { dead_letter_id: row.dead_letter_id, problem: problem.to_owned() }
}

/// Adds the messages that have died before to `died`; for all others, inheritance needs no look.
async fn died_before(
    conn: &mut SqliteConnection,
    rows: &[&NewDeadLetter],
    died: &mut HashSet<(SourceTable, Uuid)>,
) -> std::result::Result<(), sqlx::Error> {
    let ids = json_ids(rows.iter().map(|row| row.source_id));
    for row in sqlx::query(DIED_BEFORE).bind(ids).fetch_all(conn).await? {
        let name = Cell::at(&row, 0).into_text().unwrap_or_default();
        let table = SourceTable::ALL.iter().copied().find(|table| table.name() == name);
        died.extend(table.zip(Cell::at(&row, 1).uuid()));
    }
    Ok(())
}

/// Inserts rows that inherit nothing. False, and none inserted, when one of them cannot be: the caller finds which.
async fn insert_group(write: &mut Write<'_>, rows: &[&NewDeadLetter]) -> std::result::Result<bool, sqlx::Error> {
    let mut query = sqlx::query(INSERT_GROUP);
    for row in rows {
        query = bind(query, row, Filled::of(row, Inheritance::default(), write.now));
    }
    match query.execute(&mut write.conn).await {
        Ok(_) => Ok(true),
        Err(error) if is_constraint(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Inserts one row; false when its id is there already.
async fn insert(write: &mut Write<'_>, row: &NewDeadLetter, again: bool) -> std::result::Result<bool, sqlx::Error> {
    let inherited = if again {
        inherit(&mut write.conn, row.source_table, row.source_id, &row.generation).await?
    } else {
        Inheritance::default()
    };
    let query = bind(sqlx::query(INSERT), row, Filled::of(row, inherited, write.now));
    Ok(query.execute(&mut write.conn).await?.rows_affected() > 0)
}

fn bind<'q>(query: Insert<'q>, row: &NewDeadLetter, filled: Filled) -> Insert<'q> {
    let FailureReason(reason) = row.failure_reason;
    query
        .bind(row.dead_letter_id.to_string())
        .bind(row.source_table.name())
        .bind(row.source_id.to_string())
        .bind(row.stream_id.map(|id| id.to_string()))
        .bind(row.message_type.clone())
        .bind(row.destination.clone())
        .bind(row.perspective_name.clone())
        .bind(row.envelope.get().to_owned())
        .bind(row.metadata.get().to_owned())
        .bind(reason)
        .bind(filled.error_text)
        .bind(row.attempts_when_dlq)
        .bind(filled.dead_lettered_at)
        .bind(row.dead_lettered_by.map(|id| id.to_string()))
        .bind(filled.status.number())
        .bind(filled.recovery_attempts)
        .bind(filled.last_recovery_at)
        .bind(row.next_recovery_at.map(time_text))
        .bind(filled.recovered_at)
        .bind(row.generation.clone())
        .bind(json_list(filled.retried))
        .bind(row.operator_disposition.map_or(0, crate::model::Disposition::number))
        .bind(row.operator_notes.clone())
        .bind(row.operator_actor.clone())
        .bind(filled.fingerprint)
        .bind(filled.fingerprint_version)
        .bind(row.source_row.as_ref().map(|row| row.get().to_owned()))
        .bind(filled.source_created_at)
        .bind(row.source_position)
        .bind(filled.incarnation)
        .bind(row.replay_credit.clone())
        .bind(row.replay_credit_at.map(time_text))
        .bind(row.deferral.clone())
        .bind(row.policy_errors.unwrap_or(0))
        .bind(row.policy_error_digest.clone())
        .bind(row.status_note.clone())
}

/// What a line leaves open, filled in.
struct Filled {
    error_text: Option<String>,
    dead_lettered_at: String,
    status: RecoveryStatus,
    recovery_attempts: i64,
    last_recovery_at: Option<String>,
    recovered_at: Option<String>,
    retried: Vec<String>,
    fingerprint: Option<String>,
    fingerprint_version: Option<i16>,
    source_created_at: String,
    incarnation: i64,
}

impl Filled {
    fn of(row: &NewDeadLetter, inherited: Inheritance, now: jiff::Timestamp) -> Self {
        let error_text = row.error_text.as_deref().map(text::clean);
        let made = || error_text.as_deref().map(fingerprint::fingerprint);
        let fingerprint = row.error_fingerprint.clone().or_else(made);
        let own =
            if row.error_fingerprint.is_none() && fingerprint.is_some() { Some(fingerprint::VERSION) } else { None };
        let died = row.dead_lettered_at.unwrap_or(now);
        let last = row.last_recovery_at.or(inherited.last_recovery_at);
        let status = status_of(row);
        let recovered = (status == RecoveryStatus::Recovered).then(|| row.recovered_at.or(last).unwrap_or(now));
        Self {
            error_text,
            dead_lettered_at: time_text(died),
            status,
            recovery_attempts: row.recovery_attempts.map_or(inherited.recovery_attempts, i64::from),
            last_recovery_at: last.map(time_text),
            recovered_at: recovered.or(row.recovered_at).map(time_text),
            retried: row.retried_on_generations.clone().unwrap_or(inherited.retried_on_generations),
            fingerprint,
            fingerprint_version: row.error_fingerprint_version.or(own),
            source_created_at: time_text(row.source_created_at.unwrap_or(died)),
            incarnation: row.incarnation.map_or(inherited.incarnation, i64::from),
        }
    }
}

/// Recovering is shown, never stored: such a row is open.
fn status_of(row: &NewDeadLetter) -> RecoveryStatus {
    match row.recovery_status {
        None if row.recovered_at.is_some() => RecoveryStatus::Recovered,
        None | Some(RecoveryStatus::Recovering) => RecoveryStatus::Pending,
        Some(status) => status,
    }
}
