//! The numbers of the whole table.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;

use super::SqliteStore;
use super::listing::{Read, number, shown_status};
use super::values::{Cell, time_text};
use crate::model::{FailureReason, RecoveryStatus, SourceTable};
use crate::store::{Result, Stats};

const BY_STATUS: &str = concat!("select ", shown_status!("?1"), ", count(*) from wh_dead_letters d group by 1");
const BY_REASON: &str = "select failure_reason, count(*) from wh_dead_letters group by 1";
const BY_SOURCE_TABLE: &str = "select source_table, count(*) from wh_dead_letters group by 1";
const BY_FINGERPRINT: &str = "select error_fingerprint, count(*) from wh_dead_letters \
    where error_fingerprint is not null group by 1 order by 2 desc, 1 limit 100";
const OLDEST_DUE: &str = "select coalesce(next_recovery_at, dead_lettered_at) from wh_dead_letters \
    where recovery_status < 2 and operator_disposition < 2 and recovered_at is null \
    and (next_recovery_at is null or next_recovery_at <= ?) \
    order by coalesce(next_recovery_at, dead_lettered_at) limit 1";
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("stats::BY_STATUS", BY_STATUS),
    ("stats::BY_REASON", BY_REASON),
    ("stats::BY_SOURCE_TABLE", BY_SOURCE_TABLE),
    ("stats::BY_FINGERPRINT", BY_FINGERPRINT),
    ("stats::OLDEST_DUE", OLDEST_DUE),
];

/// See [`crate::store::OperatorStore::stats`].
pub(super) async fn stats(store: &SqliteStore, now: Option<Timestamp>) -> Result<Stats> {
    let mut conn = store.read().await?;
    let now = now.unwrap_or_else(Timestamp::now);
    stats_in(&mut conn, now).await.map_err(|error| store.fault.of("count dead letters", error))
}

async fn stats_in(conn: &mut SqliteConnection, now: Timestamp) -> Read<Stats> {
    let mut snapshot = conn.begin().await?;
    let mut by_status: BTreeMap<_, _> = RecoveryStatus::ALL.iter().map(|status| (*status, 0)).collect();
    for (cell, count) in groups(&mut snapshot, BY_STATUS, now).await? {
        if let Some(status) = cell.integer().and_then(|number| RecoveryStatus::try_from(number).ok()) {
            by_status.insert(status, count);
        }
    }
    let reason = |cell: Cell| cell.integer().and_then(|number| i32::try_from(number).ok()).map(FailureReason);
    let by_reason = groups(&mut snapshot, BY_REASON, now).await?;
    let table = |cell: Cell| SourceTable::ALL.iter().copied().find(|table| cell == Cell::Text(table.name().to_owned()));
    let by_source_table = groups(&mut snapshot, BY_SOURCE_TABLE, now).await?;
    let by_fingerprint = groups(&mut snapshot, BY_FINGERPRINT, now).await?;
    let oldest = sqlx::query(OLDEST_DUE).bind(time_text(now)).fetch_optional(&mut *snapshot).await?;
    Ok(Stats {
        by_status,
        by_reason: by_reason.into_iter().filter_map(|(cell, count)| Some((reason(cell)?, count))).collect(),
        by_source_table: by_source_table.into_iter().filter_map(|(cell, count)| Some((table(cell)?, count))).collect(),
        by_fingerprint: by_fingerprint.into_iter().filter_map(|(cell, n)| Some((cell.into_text()?, n))).collect(),
        oldest_due: oldest.and_then(|row| Cell::at(&row, 0).time()),
    })
}

async fn groups(conn: &mut SqliteConnection, statement: &'static str, now: Timestamp) -> Read<Vec<(Cell, u64)>> {
    let rows = sqlx::query(statement).bind(time_text(now)).fetch_all(conn).await?;
    Ok(rows.iter().map(|row| (Cell::at(row, 0), number(row, 1))).collect())
}
