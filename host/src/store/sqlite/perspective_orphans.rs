//! What dead instances hold, and which streams have something to be claimed.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::SqliteStore;
use super::values::{Cell, json_list, time_text};
use crate::model::time::later;
use crate::store::Result;
use crate::store::perspective::{Orphan, OrphanClaim, SILENT};

/// The rows of a stream and perspective before the one at hand (`w` with its event `e`).
macro_rules! earlier {
    () => {
        "(partition by w.stream_id, w.perspective_name order by coalesce(e.commit_sequence, 9223372036854775807), \
         w.event_id rows between unbounded preceding and 1 preceding)"
    };
}

/// The same with the row itself.
macro_rules! up_to_here {
    () => {
        "(partition by w.stream_id, w.perspective_name order by coalesce(e.commit_sequence, 9223372036854775807), \
         w.event_id rows between unbounded preceding and current row)"
    };
}

/// [`crate::store::perspective::company`] in SQL.
macro_rules! company {
    ($attempts:literal) => {
        concat!(
            "case when ",
            $attempts,
            " < 3 then 9223372036854775807 when ",
            $attempts,
            " = 3 then 256 when ",
            $attempts,
            " = 4 then 64 when ",
            $attempts,
            " = 5 then 16 when ",
            $attempts,
            " = 6 then 4 else 1 end"
        )
    };
}

/// ?1 the caller, ?2 now, ?3 the last heartbeat of a live instance, ?4 the most rows, ?5 whether in order.
const ORPHANS: &str = concat!(
    "select o.event_work_id, o.stream_id, o.perspective_name from (\
     select w.event_work_id, w.stream_id, w.perspective_name, w.event_id, \
     coalesce(e.commit_sequence, 9223372036854775807) as place, \
     w.instance_id <> ?1 and (w.lease_expiry is null or w.lease_expiry <= ?2) \
     and (w.scheduled_for is null or w.scheduled_for <= ?2) and w.instance_id not in (\
         select i.instance_id from wh_service_instances i where i.last_heartbeat_at >= ?3) as orphaned, \
     max(w.instance_id <> ?1 and w.lease_expiry > ?2 or ?5 and e.event_id is not null \
         and (w.scheduled_for > ?2 or w.error is not null)) over ",
    earlier!(),
    " as stopped, count(*) over ",
    earlier!(),
    " as behind, min(case when ?5 and e.event_id is not null then ",
    company!("w.attempts"),
    " end) over ",
    up_to_here!(),
    " as company from wh_perspective_events w left join wh_event_store e on e.event_id = w.event_id \
     where w.processed_at is null and w.stream_id in (select d.stream_id from wh_perspective_events d \
         where d.processed_at is null and d.instance_id <> ?1 and (d.lease_expiry is null or d.lease_expiry <= ?2))) o \
     where o.orphaned and not coalesce(o.stopped, 0) and (o.behind = 0 or o.behind < coalesce(o.company, o.behind + 1)) \
     order by o.stream_id, o.perspective_name, o.place, o.event_id limit ?4"
);
const TAKE: &str = "update wh_perspective_events set attempts = min(attempts + 1, 2147483647), claimed_at = ?2, instance_id = ?1, \
    lease_expiry = ?3 where event_work_id in (select value from json_each(?4))";
/// ?1 the caller, ?2 now, ?3 the most streams.
const PENDING: &str = concat!(
    "select o.stream_id from (select w.stream_id, coalesce(w.scheduled_for, w.created_at) as since, \
     (w.scheduled_for is null or w.scheduled_for <= ?2) and (w.instance_id is null or w.instance_id = ?1 \
         or w.lease_expiry is null or w.lease_expiry <= ?2) as free, \
     max(w.instance_id <> ?1 and w.lease_expiry > ?2) over (partition by w.stream_id) as held, \
     max(e.event_id is not null and w.scheduled_for > ?2) over ",
    earlier!(),
    " as stopped from wh_perspective_events w left join wh_event_store e on e.event_id = w.event_id \
     where w.processed_at is null) o \
     where o.free and not coalesce(o.held, 0) and not coalesce(o.stopped, 0) \
     group by o.stream_id order by min(o.since), o.stream_id limit ?3"
);

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("perspective_orphans::ORPHANS", ORPHANS),
    ("perspective_orphans::TAKE", TAKE),
    ("perspective_orphans::PENDING", PENDING),
];

/// See [`crate::store::PerspectiveStore::claim_orphaned_events`].
pub(super) async fn claim(store: &SqliteStore, claim: &OrphanClaim) -> Result<Vec<Orphan>> {
    let failed = |error| store.fault.of("claim orphaned perspective events", error);
    let mut write = store.write(claim.now).await?;
    let silent_since = write.now.checked_sub(SILENT).unwrap_or(Timestamp::MIN);
    let query = sqlx::query(ORPHANS).bind(claim.instance_id.to_string()).bind(time_text(write.now));
    let query = query.bind(time_text(silent_since)).bind(claim.max).bind(claim.in_order);
    let rows = query.fetch_all(&mut write.conn).await.map_err(failed)?;
    let keys = rows.iter().filter_map(|row| Cell::at(row, 0).into_text());
    sqlx::query(TAKE)
        .bind(claim.instance_id.to_string())
        .bind(time_text(write.now))
        .bind(time_text(later(write.now, claim.lease)))
        .bind(json_list(keys))
        .execute(&mut write.conn)
        .await
        .map_err(failed)?;
    write.commit().await?;
    Ok(rows.iter().filter_map(orphan).collect())
}

fn orphan(row: &SqliteRow) -> Option<Orphan> {
    Some(Orphan {
        event_work_id: Cell::at(row, 0).uuid()?,
        stream_id: Cell::at(row, 1).uuid()?,
        perspective_name: Cell::at(row, 2).into_text()?,
    })
}

/// See [`crate::store::PerspectiveStore::pending_streams`].
pub(super) async fn pending(
    store: &SqliteStore,
    instance_id: Uuid,
    max: u32,
    now: Option<Timestamp>,
) -> Result<Vec<Uuid>> {
    let now = time_text(now.unwrap_or_else(Timestamp::now));
    let mut conn = store.read().await?;
    let query = sqlx::query(PENDING).bind(instance_id.to_string()).bind(now).bind(max);
    let rows = query.fetch_all(&mut *conn).await;
    let rows = rows.map_err(|error| store.fault.of("look for perspective events", error))?;
    Ok(rows.iter().filter_map(|row| Cell::at(row, 0).uuid()).collect())
}
