//! Deleting what was recorded long ago.

use jiff::Timestamp;
use sqlx::Row as _;

use super::SqliteStore;
use super::values::{Cell, time_text};
use crate::store::passes::CHUNK;
use crate::store::{Forget, Forgotten, Result};

const LAST_OF_CHUNK: &str = "select count(*), max(c.decision_id) from (select decision_id from wh_dead_letter_decisions \
    where decision_id > ? order by decision_id limit ?) c";
const DELETE: &str = "delete from wh_dead_letter_decisions where decision_id > ?1 and decision_id <= ?2 \
    and decided_at < ?3 and not exists (select 1 from wh_dead_letters d \
    where d.dead_letter_id = wh_dead_letter_decisions.dead_letter_id and d.recovery_status not in (3, 4)) \
    and not exists (select 1 from wh_dead_letter_decisions y \
    where y.dead_letter_id = wh_dead_letter_decisions.dead_letter_id and y.decided_at >= ?3)";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("retention::LAST_OF_CHUNK", LAST_OF_CHUNK), ("retention::DELETE", DELETE)];

/// See [`crate::store::RecoveryStore::forget_decisions`].
pub(super) async fn forget_decisions(store: &SqliteStore, request: &Forget<'_>) -> Result<Forgotten> {
    let failed = |error| store.fault.of("forget recorded decisions", error);
    let after = request.after.unwrap_or("").to_owned();
    let mut write = store.write(request.now).await?;
    let before = write.now.checked_sub(request.keep).unwrap_or(Timestamp::MIN);
    let query = sqlx::query(LAST_OF_CHUNK).bind(after.clone()).bind(CHUNK);
    let row = query.fetch_one(&mut write.conn).await.map_err(failed)?;
    let looked_at: i64 = row.try_get(0).map_err(failed)?;
    let Some(last) = Cell::at(&row, 1).into_text() else { return Ok(Forgotten::default()) };
    let query = sqlx::query(DELETE).bind(after).bind(last.clone()).bind(time_text(before));
    let done = query.execute(&mut write.conn).await.map_err(failed)?;
    write.commit().await?;
    let next = Some(last).filter(|_| looked_at >= i64::from(CHUNK));
    Ok(Forgotten { decisions: done.rows_affected(), next })
}
