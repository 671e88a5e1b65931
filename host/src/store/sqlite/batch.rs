//! The row of a batch: what it holds, prolonging it, giving it back.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::SqliteStore;
use super::claim::stream_key;
use super::values::{Cell, json_ids, time_text};
use crate::model::time::later;
use crate::store::{Result, Split};

/// The streams of a list of rows, as a list; of those that are in another list, if there is one.
macro_rules! streams_of {
    ($ids:literal $(, $among:literal)?) => {
        concat!(
            "(select json_group_array(distinct ",
            stream_key!(),
            ") from wh_dead_letters d where d.dead_letter_id in (select value from json_each(",
            $ids,
            ")) and ",
            $("d.dead_letter_id in (select value from json_each(", $among, ")) and ",)?
            stream_key!(),
            " is not null)"
        )
    };
}

const READ: &str = "select ids from wh_recovery_batches where batch_id = ? and phase = ?";
const STREAMS: &str = "select e.value from wh_recovery_batches b, json_each(b.streams) e where b.batch_id = ?";
pub(super) const DELETE: &str = "delete from wh_recovery_batches where batch_id = ?";
/// The streams of the rows that are let go are free for others from now on.
pub(super) const START_RECOVERING: &str = concat!(
    "update wh_recovery_batches set phase = 'recovering', ids = ?1, streams = ",
    streams_of!("?1"),
    " where batch_id = ?2"
);
const KEEP: &str = concat!(
    "update wh_recovery_batches set ids = ?2, streams = ",
    streams_of!("?2", "?3"),
    " where batch_id = ?1 and phase = 'recovering'"
);
const MOVE: &str = concat!(
    "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, started_at, expires_at) \
     select ?2, owner, generation, phase, ?3, ",
    streams_of!("?3", "?4"),
    ", started_at, expires_at from wh_recovery_batches where batch_id = ?1"
);
const RENEW: &str = "update wh_recovery_batches set expires_at = ? where batch_id = ?";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("batch::READ", READ),
    ("batch::STREAMS", STREAMS),
    ("batch::DELETE", DELETE),
    ("batch::START_RECOVERING", START_RECOVERING),
    ("batch::KEEP", KEEP),
    ("batch::MOVE", MOVE),
    ("batch::RENEW", RENEW),
];

/// What is being done with the rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Deciding,
    Recovering,
}

impl Phase {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Deciding => "deciding",
            Self::Recovering => "recovering",
        }
    }
}

/// The ids in a batch that is in this phase; `None` when there is none.
pub(super) async fn ids(
    conn: &mut SqliteConnection,
    batch_id: Uuid,
    phase: Phase,
) -> std::result::Result<Option<Vec<Uuid>>, sqlx::Error> {
    let row = sqlx::query(READ).bind(batch_id.to_string()).bind(phase.name()).fetch_optional(conn).await?;
    Ok(row.map(|row| parse_ids(&Cell::at(&row, 0).into_text().unwrap_or_default())))
}

/// The streams of a batch.
pub(super) async fn streams(
    conn: &mut SqliteConnection,
    batch_id: Uuid,
) -> std::result::Result<Vec<String>, sqlx::Error> {
    let rows = sqlx::query(STREAMS).bind(batch_id.to_string()).fetch_all(conn).await?;
    Ok(rows.iter().filter_map(|row| Cell::at(row, 0).into_text()).collect())
}

/// The ids of a JSON array.
pub(super) fn parse_ids(text: &str) -> Vec<Uuid> {
    let ids: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    ids.iter().filter_map(|id| Uuid::try_parse(id).ok()).collect()
}

/// See [`crate::store::RecoveryStore::renew`].
pub(super) async fn renew(
    store: &SqliteStore,
    batch_id: Uuid,
    lease: Duration,
    now: Option<Timestamp>,
) -> Result<bool> {
    let mut write = store.write(now).await?;
    let expires = time_text(later(write.now, lease));
    let query = sqlx::query(RENEW).bind(expires).bind(batch_id.to_string());
    let done = query.execute(&mut write.conn).await.map_err(|error| store.fault.of("renew a batch", error))?;
    write.commit().await?;
    Ok(done.rows_affected() > 0)
}

/// See [`crate::store::RecoveryStore::release`].
pub(super) async fn release(store: &SqliteStore, batch_id: Uuid) -> Result<()> {
    let mut write = store.write(None).await?;
    let query = sqlx::query(DELETE).bind(batch_id.to_string());
    query.execute(&mut write.conn).await.map_err(|error| store.fault.of("release a batch", error))?;
    write.commit().await
}

/// See [`crate::store::RecoveryStore::split`].
pub(super) async fn split(store: &SqliteStore, request: &Split<'_>) -> Result<bool> {
    let failed = |error| store.fault.of("split a batch", error);
    let (batch_id, ids) = (request.batch_id.to_string(), |ids: &[Uuid]| json_ids(ids.iter().copied()));
    let mut write = store.write(None).await?;
    let keep = sqlx::query(KEEP).bind(batch_id.clone()).bind(ids(request.keep)).bind(ids(request.in_order));
    if keep.execute(&mut write.conn).await.map_err(failed)?.rows_affected() == 0 {
        return Ok(false);
    }
    if !request.moved.is_empty() {
        let moved = sqlx::query(MOVE).bind(batch_id).bind(request.new_batch_id.to_string());
        let moved = moved.bind(ids(request.moved)).bind(ids(request.in_order));
        moved.execute(&mut write.conn).await.map_err(failed)?;
    }
    write.commit().await?;
    Ok(true)
}
