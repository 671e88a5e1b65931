//! What makes waiting rows due at once: a new policy, and retries that applications ask for by SQL.

use jiff::Timestamp;

use super::SqliteStore;
use super::connect::Write;
use super::decisions;
use super::rows::live_ids;
use super::values::{Cell, time_text};
use crate::store::{OperatorVerb, Result};

const CLEAR: &str = "update wh_dead_letters set next_recovery_at = ?, deferral = null \
    where recovery_status < 2 and operator_disposition < 2 and deferral in ('skip', 'policy-error') \
    and policy_error_digest is not ?";
const ASKED: &str = concat!(
    "select d.dead_letter_id from wh_dead_letters d where d.operator_disposition = 1 and d.recovery_status <> 3 \
     and d.dead_letter_id not in (",
    live_ids!("?1"),
    ")"
);
const RETRY: &str = "update wh_dead_letters set recovery_status = 0, next_recovery_at = ?1, replay_credit = '*', \
    replay_credit_at = ?1, operator_disposition = 0, deferral = null, status_note = null where dead_letter_id = ?2";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("nudge::CLEAR", CLEAR), ("nudge::ASKED", ASKED), ("nudge::RETRY", RETRY)];

/// See [`crate::store::RecoveryStore::clear_policy_deferrals`].
pub(super) async fn clear_policy_deferrals(store: &SqliteStore, digest: &str, now: Option<Timestamp>) -> Result<u64> {
    let mut write = store.write(now).await?;
    let query = sqlx::query(CLEAR).bind(time_text(write.now)).bind(digest.to_owned());
    let done = query.execute(&mut write.conn).await;
    let done = done.map_err(|error| store.fault.of("clear the deferrals of the former policy", error))?;
    write.commit().await?;
    Ok(done.rows_affected())
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
    let taken = take(&mut write).await.map_err(failed)?;
    write.commit().await?;
    Ok(taken)
}

async fn take(write: &mut Write<'_>) -> std::result::Result<u64, sqlx::Error> {
    let rows = sqlx::query(ASKED).bind(time_text(write.now)).fetch_all(&mut write.conn).await?;
    let mut taken = 0;
    for row in &rows {
        let id = Cell::at(row, 0).into_text().unwrap_or_default();
        let query = sqlx::query(RETRY).bind(time_text(write.now)).bind(id.clone());
        taken += query.execute(&mut write.conn).await?.rows_affected();
        let note = Some("asked for through operator_disposition");
        decisions::record_request(write, &id, OperatorVerb::Retry.name(), None, note).await?;
    }
    Ok(taken)
}
