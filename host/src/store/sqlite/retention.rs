//! Deleting what was settled or recorded long ago.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row as _;

use super::SqliteStore;
use super::values::{Cell, time_text};
use crate::store::passes::CHUNK;
use crate::store::{Forget, Forgotten, KeepSettled, Result};

const LAST_DECISION: &str = "select count(*), max(c.decision_id) from (select decision_id from wh_dead_letter_decisions \
    where decision_id > ? order by decision_id limit ?) c";
const DELETE_DECISIONS: &str = "delete from wh_dead_letter_decisions where decision_id > ?1 and decision_id <= ?2 \
    and decided_at < ?3 and not exists (select 1 from wh_dead_letters d \
    where d.dead_letter_id = wh_dead_letter_decisions.dead_letter_id and d.recovery_status not in (3, 4)) \
    and not exists (select 1 from wh_dead_letter_decisions y \
    where y.dead_letter_id = wh_dead_letter_decisions.dead_letter_id and y.decided_at >= ?3)";
const LAST_LETTER: &str = "select count(*), max(c.dead_letter_id) from (select dead_letter_id from wh_dead_letters \
    where dead_letter_id > ? order by dead_letter_id limit ?) c";
const DELETE_LETTERS: &str = "delete from wh_dead_letters where dead_letter_id > ?1 and dead_letter_id <= ?2 \
    and (recovery_status = 3 and recovered_at < ?3 or recovery_status = 4 and dead_lettered_at < ?4 \
    and coalesce(last_recovery_at, '') < ?4 and not exists (select 1 from wh_dead_letter_decisions x \
    where x.dead_letter_id = wh_dead_letters.dead_letter_id and x.decided_at >= ?4)) \
    and not exists (select 1 from wh_dead_letters n where n.source_table = wh_dead_letters.source_table \
    and n.source_id = wh_dead_letters.source_id and (n.recovery_status not in (3, 4) \
    or n.recovery_status = 4 and n.incarnation < wh_dead_letters.incarnation))";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("retention::LAST_DECISION", LAST_DECISION),
    ("retention::DELETE_DECISIONS", DELETE_DECISIONS),
    ("retention::LAST_LETTER", LAST_LETTER),
    ("retention::DELETE_LETTERS", DELETE_LETTERS),
];

/// What a pass goes over.
struct Pass {
    action: &'static str,
    /// How many rows a chunk has, and the id of its last one.
    last: &'static str,
    /// Deletes between two ids; the further parameters are times.
    delete: &'static str,
}

const DECISIONS: Pass = Pass { action: "forget recorded decisions", last: LAST_DECISION, delete: DELETE_DECISIONS };
const LETTERS: Pass = Pass { action: "forget settled dead letters", last: LAST_LETTER, delete: DELETE_LETTERS };

/// See [`crate::store::RecoveryStore::forget_decisions`].
pub(super) async fn forget_decisions(store: &SqliteStore, request: &Forget<'_, Duration>) -> Result<Forgotten> {
    chunk(store, &DECISIONS, request, &[Some(request.keep)]).await
}

/// See [`crate::store::RecoveryStore::forget_settled`].
pub(super) async fn forget_settled(store: &SqliteStore, request: &Forget<'_, KeepSettled>) -> Result<Forgotten> {
    let KeepSettled { recovered, permanently_failed } = request.keep;
    chunk(store, &LETTERS, request, &[recovered, permanently_failed]).await
}

async fn chunk<K>(
    store: &SqliteStore,
    pass: &Pass,
    request: &Forget<'_, K>,
    keeps: &[Option<Duration>],
) -> Result<Forgotten> {
    let failed = |error| store.fault.of(pass.action, error);
    let after = request.after.unwrap_or("").to_owned();
    let mut write = store.write(request.now).await?;
    let query = sqlx::query(pass.last).bind(after.clone()).bind(CHUNK);
    let row = query.fetch_one(&mut write.conn).await.map_err(failed)?;
    let looked_at: i64 = row.try_get(0).map_err(failed)?;
    let Some(last) = Cell::at(&row, 1).into_text() else {
        write.commit().await?;
        return Ok(Forgotten::default());
    };
    let mut query = sqlx::query(pass.delete).bind(after).bind(last.clone());
    for keep in keeps {
        let before = keep.map(|keep| time_text(write.now.checked_sub(keep).unwrap_or(Timestamp::MIN)));
        query = query.bind(before);
    }
    let done = query.execute(&mut write.conn).await.map_err(failed)?;
    write.commit().await?;
    let next = Some(last).filter(|_| looked_at >= i64::from(CHUNK));
    Ok(Forgotten { rows: done.rows_affected(), next })
}
