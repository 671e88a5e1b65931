//! Looking whether there is something to do.

use jiff::Timestamp;

use super::SqliteStore;
use super::claim::{batch_streams, free, reserved_since, stream_key};
use super::rows::live_ids;
use super::values::{Cell, time_text};
use crate::model::time::stored;
use crate::store::{Due, Result};

/// ?1 is now, ?2 the generation, ?3 the time up to which credits no longer reserve their rows.
const DUE: &str = concat!(
    "select exists (select 1 from wh_dead_letters d indexed by wh_dead_letters_due \
     where coalesce(d.next_recovery_at, d.dead_lettered_at) <= ?1 and ",
    free!(),
    ") or exists (select 1 from wh_dead_letters d indexed by wh_dead_letters_age \
     where d.dead_lettered_at > ?1 and d.next_recovery_at is null and ",
    free!(),
    ") or exists (select 1 from wh_dead_letters d where d.operator_disposition = 1 and d.recovery_status <> 3 \
     and d.dead_letter_id not in (",
    live_ids!("?1"),
    ")) or exists (select 1 from wh_recovery_batches where expires_at <= ?1), \
     (select d.next_recovery_at from wh_dead_letters d indexed by wh_dead_letters_due \
     where coalesce(d.next_recovery_at, d.dead_lettered_at) > ?1 and d.next_recovery_at is not null \
     and d.recovery_status < 2 and d.operator_disposition < 2 \
     order by coalesce(d.next_recovery_at, d.dead_lettered_at) limit 1), \
     (select min(expires_at) from wh_recovery_batches where expires_at > ?1)"
);

pub(super) const STATEMENTS: &[(&str, &str)] = &[("due::DUE", DUE)];

/// See [`crate::store::RecoveryStore::due`].
pub(super) async fn due(store: &SqliteStore, generation: &str, now: Option<Timestamp>) -> Result<Due> {
    let now = stored(now.unwrap_or_else(Timestamp::now));
    let mut conn = store.read().await?;
    let row = sqlx::query(DUE)
        .bind(time_text(now))
        .bind(generation.to_owned())
        .bind(time_text(reserved_since(now)))
        .fetch_one(&mut *conn)
        .await
        .map_err(|error| store.fault.of("look for due dead letters", error))?;
    let times = [Cell::at(&row, 1).time(), Cell::at(&row, 2).time()];
    Ok(Due { now, due_now: Cell::at(&row, 0).integer().unwrap_or(0) != 0, next_at: times.into_iter().flatten().min() })
}
