//! What makes waiting rows due at once: a new policy, and retries that applications ask for by SQL.

use jiff::Timestamp;
use serde_json::json;
use sqlx::Row as _;

use super::SqliteStore;
use super::connect::Write;
use super::decisions;
use super::guard;
use super::rows::live_ids;
use super::values::{Cell, time_text};
use crate::store::passes::CHUNK;
use crate::store::{ClearDeferrals, Cleared, OperatorVerb, Result};

/// The rows of a chunk, as a list with a column for those to be made due.
const DEFERRED: &str = "select d.dead_letter_id, d.recovery_status < 2 and d.operator_disposition < 2 \
    and (d.policy_error_digest <> ?1 or d.policy_error_digest is null and ?2) \
    from wh_dead_letters d indexed by wh_dead_letters_deferral \
    where d.deferral in ('skip', 'policy-error') and d.dead_letter_id > ?3 order by d.dead_letter_id limit ?4";
const CLEAR: &str = "update wh_dead_letters set next_recovery_at = ?1, deferral = null \
    where dead_letter_id in (select value from json_each(?2)) and recovery_status < 2 and operator_disposition < 2 \
    and deferral in ('skip', 'policy-error')";
const ASKED: &str = concat!(
    "select d.dead_letter_id from wh_dead_letters d where d.operator_disposition = 1 and d.recovery_status <> 3 \
     and d.dead_letter_id not in (",
    live_ids!("?1"),
    ")"
);
const RETRY: &str = "update wh_dead_letters set recovery_status = 0, next_recovery_at = ?1, replay_credit = '*', \
    replay_credit_at = ?1, operator_disposition = 0, deferral = null, status_note = null where dead_letter_id = ?2";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("nudge::DEFERRED", DEFERRED), ("nudge::CLEAR", CLEAR), ("nudge::ASKED", ASKED), ("nudge::RETRY", RETRY)];

/// See [`crate::store::RecoveryStore::clear_policy_deferrals`].
pub(super) async fn clear_policy_deferrals(store: &SqliteStore, request: &ClearDeferrals<'_>) -> Result<Cleared> {
    let failed = |error| store.fault.of("clear the deferrals of the former policy", error);
    // Most chunks hold none, and need no write lock to see it.
    let rows = {
        let mut conn = store.read().await?;
        let query = sqlx::query(DEFERRED).bind(request.digest.to_owned()).bind(request.unknown);
        let query = query.bind(request.after.unwrap_or("").to_owned()).bind(CHUNK);
        query.fetch_all(&mut *conn).await.map_err(failed)?
    };
    let last = rows.last().and_then(|row| Cell::at(row, 0).into_text());
    let next = last.filter(|_| i32::try_from(rows.len()).is_ok_and(|looked_at| looked_at >= CHUNK));
    let due: Vec<String> = rows
        .iter()
        .filter(|row| row.try_get(1).unwrap_or(false))
        .filter_map(|row| Cell::at(row, 0).into_text())
        .collect();
    if due.is_empty() {
        return Ok(Cleared { rows: 0, next });
    }
    let mut write = store.write(request.now).await?;
    let cleared = guard::all_or_each(&mut write, &due, clear).await.map_err(failed)?;
    write.commit().await?;
    Ok(Cleared { rows: cleared, next })
}

async fn clear(write: &mut Write<'_>, ids: &[String]) -> std::result::Result<u64, sqlx::Error> {
    let query = sqlx::query(CLEAR).bind(time_text(write.now)).bind(json!(ids).to_string());
    Ok(query.execute(&mut write.conn).await?.rows_affected())
}

/// See [`crate::store::RecoveryStore::take_operator_retries`].
pub(super) async fn take_operator_retries(store: &SqliteStore, now: Option<Timestamp>) -> Result<u64> {
    let failed = |error| store.fault.of("take the retries that were asked for", error);
    // Most scans find none, and need no write lock to see it.
    let asked = {
        let mut conn = store.read().await?;
        let now = time_text(now.unwrap_or_else(Timestamp::now));
        sqlx::query(ASKED).bind(now).fetch_optional(&mut *conn).await.map_err(failed)?
    };
    if asked.is_none() {
        return Ok(0);
    }
    let mut write = store.write(now).await?;
    let (taken, refused) = take(&mut write).await.map_err(failed)?;
    write.commit().await?;
    refused.map_or(Ok(taken), |error| Err(failed(error)))
}

/// How many were taken, and what the database said of one that it did not let be taken.
async fn take(write: &mut Write<'_>) -> std::result::Result<(u64, Option<sqlx::Error>), sqlx::Error> {
    let rows = sqlx::query(ASKED).bind(time_text(write.now)).fetch_all(&mut write.conn).await?;
    let (mut taken, mut refused) = (0, None);
    for row in &rows {
        let id = Cell::at(row, 0).into_text().unwrap_or_default();
        guard::open(&mut write.conn).await?;
        let tried = take_one(write, &id).await;
        match guard::close(&mut write.conn, None, tried).await.map_err(|stop| stop.error)? {
            Ok(rows) => taken += rows,
            Err(error) => refused = Some(error),
        }
    }
    Ok((taken, refused))
}

async fn take_one(write: &mut Write<'_>, id: &str) -> std::result::Result<u64, sqlx::Error> {
    let query = sqlx::query(RETRY).bind(time_text(write.now)).bind(id.to_owned());
    let taken = query.execute(&mut write.conn).await?;
    guard::changed(&taken)?;
    decisions::record_request(write, id, OperatorVerb::Retry.name()).await?;
    Ok(taken.rows_affected())
}
