//! Rows of perspectives: claims, reports, instances.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::rows::{get, optional_time};
use super::{PostgresStore, sql_time, text};
use crate::store::perspective::{
    ClaimedEvent, EventClaim, EventFailure, Heartbeat, LeasedMove, LeasedMoves, Orphan, OrphanClaim, PerspectiveStore,
    StoredEvent,
};
use crate::store::{Result, StoreError};

pub(crate) const CLAIM: &str = "select stream_id, event_id, event_work_id, perspective_name, event_type, \
    coalesce(event_data::text, 'null') as event_data, coalesce(metadata::text, 'null') as metadata, commit_sequence, \
    attempts, claimed_at, taken_over \
    from reprieve_claim_events($1, $2, $3, $4, $5, $6)";

pub(crate) const CLAIM_ORPHANED: &str =
    "select event_work_id, stream_id, perspective_name from reprieve_claim_orphans($1, $2, $3, $4, $5)";

pub(crate) const COMPLETE: &str = "select event_work_id from reprieve_complete_events($1, $2, $3)";

pub(crate) const FAIL: &str = "select event_work_id from reprieve_fail_events($1, $2, $3, $4, $5)";

pub(crate) const PENDING: &str = "\
    select o.stream_id \
    from ( \
        select w.stream_id, coalesce(w.scheduled_for, w.created_at) as since, \
            (w.scheduled_for is null or w.scheduled_for <= coalesce($3, now())) \
                and (w.instance_id is null or w.instance_id = $1 \
                    or w.lease_expiry is null or w.lease_expiry <= coalesce($3, now())) as free, \
            bool_or(w.instance_id <> $1 and w.lease_expiry > coalesce($3, now())) over ( \
                partition by w.stream_id) as held, \
            bool_or(e.event_id is not null and w.scheduled_for > coalesce($3, now())) over ( \
                partition by w.stream_id, w.perspective_name \
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id \
                rows between unbounded preceding and 1 preceding) as stopped \
        from wh_perspective_events w \
        left join wh_event_store e on e.event_id = w.event_id \
        where w.processed_at is null \
    ) o \
    where o.free and o.held is not true and o.stopped is not true \
    group by o.stream_id \
    order by min(o.since), o.stream_id \
    limit $2";

pub(crate) const HEARTBEAT: &str = "select heartbeat_service_instance($1, $2, $3, $4, null, $5)::text";

pub(crate) const REMOVE_STALE: &str = "select instance_id from remove_stale_service_instances($1, $2)";

pub(crate) const MOVE_LEASED: &str =
    "select source_id, outcome, problem from reprieve_move_leased($1, $2, $3, $4, $5, $6, $7, $8)";

#[async_trait]
impl PerspectiveStore for PostgresStore {
    async fn claim_events(&self, claim: &EventClaim<'_>) -> Result<Vec<ClaimedEvent>> {
        let action = "claim perspective events";
        let query = self
            .query(CLAIM)
            .bind(claim.instance_id)
            .bind(claim.streams.to_vec())
            .bind(claim.perspective.map(str::to_owned))
            .bind(claim.in_order)
            .bind(claim.lease.as_secs_f64())
            .bind(claim.now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, claimed)
    }

    async fn claim_orphaned_events(&self, claim: &OrphanClaim) -> Result<Vec<Orphan>> {
        let action = "claim orphaned perspective events";
        let query = self
            .query(CLAIM_ORPHANED)
            .bind(claim.instance_id)
            .bind(whole(u64::from(claim.max)))
            .bind(claim.in_order)
            .bind(claim.lease.as_secs_f64())
            .bind(claim.now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, |row| {
            Ok(Orphan {
                event_work_id: get(row, "event_work_id")?,
                stream_id: get(row, "stream_id")?,
                perspective_name: get(row, "perspective_name")?,
            })
        })
    }

    async fn complete_events(&self, instance_id: Uuid, ids: &[Uuid], now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        let action = "complete perspective events";
        let query = self.query(COMPLETE).bind(instance_id).bind(ids.to_vec()).bind(now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, |row| get(row, "event_work_id"))
    }

    async fn fail_events(
        &self,
        instance_id: Uuid,
        failures: &[EventFailure],
        now: Option<Timestamp>,
    ) -> Result<Vec<Uuid>> {
        let action = "fail perspective events";
        let query = self
            .query(FAIL)
            .bind(instance_id)
            .bind(failures.iter().map(|failure| failure.event_work_id).collect::<Vec<_>>())
            .bind(failures.iter().map(|failure| text::text(&failure.error).into_owned()).collect::<Vec<_>>())
            .bind(failures.iter().map(|failure| failure.reason.0).collect::<Vec<_>>())
            .bind(now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, |row| get(row, "event_work_id"))
    }

    async fn pending_streams(&self, instance_id: Uuid, max: u32, now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        let action = "look for perspective events";
        let query = self.query(PENDING).bind(instance_id).bind(i64::from(max)).bind(now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, |row| get(row, "stream_id"))
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<()> {
        let query = self
            .query(HEARTBEAT)
            .bind(heartbeat.instance_id)
            .bind(text::text(heartbeat.service_name).into_owned())
            .bind(text::text(heartbeat.host_name).into_owned())
            .bind(whole(u64::from(heartbeat.process_id)))
            .bind(heartbeat.now.map(sql_time));
        self.rows("register an instance", query).await.map(drop)
    }

    async fn remove_stale_instances(&self, silent: Duration, now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        let action = "remove stale instances";
        let query = self.query(REMOVE_STALE).bind(now.map(sql_time)).bind(whole(silent.as_secs()));
        read_all(action, &self.rows(action, query).await?, |row| get(row, "instance_id"))
    }

    async fn move_leased(&self, moves: &LeasedMoves<'_>) -> Result<Vec<LeasedMove>> {
        let action = "move rows to the dead letters";
        let query = self
            .query(MOVE_LEASED)
            .bind(moves.source_table.name())
            .bind(moves.rows.iter().map(|row| row.source_id).collect::<Vec<_>>())
            .bind(moves.rows.iter().map(|row| row.dead_letter_id).collect::<Vec<_>>())
            .bind(moves.rows.iter().map(|row| text::text(&row.error_text).into_owned()).collect::<Vec<_>>())
            .bind(moves.failure_reason.0)
            .bind(moves.instance_id)
            .bind(text::text(moves.generation).into_owned())
            .bind(moves.now.map(sql_time));
        read_all(action, &self.rows(action, query).await?, moved)
    }
}

fn claimed(row: &PgRow) -> std::result::Result<ClaimedEvent, String> {
    let event = match get::<Option<String>>(row, "event_type")? {
        Some(event_type) => Some(StoredEvent {
            event_type,
            event_data: get(row, "event_data")?,
            metadata: get(row, "metadata")?,
            commit_sequence: get(row, "commit_sequence")?,
        }),
        None => None,
    };
    Ok(ClaimedEvent {
        event_work_id: get(row, "event_work_id")?,
        stream_id: get(row, "stream_id")?,
        event_id: get(row, "event_id")?,
        perspective_name: get(row, "perspective_name")?,
        attempts: get(row, "attempts")?,
        claimed_at: optional_time(row, "claimed_at").unwrap_or(None),
        taken_over: get(row, "taken_over")?,
        event,
    })
}

fn moved(row: &PgRow) -> std::result::Result<LeasedMove, String> {
    Ok(match get::<&str>(row, "outcome")? {
        "moved" => LeasedMove::Moved,
        "gone" => LeasedMove::Gone,
        _ => LeasedMove::Failed(get::<Option<String>>(row, "problem")?.unwrap_or_default()),
    })
}

fn read_all<T>(
    action: &'static str,
    rows: &[PgRow],
    read: impl Fn(&PgRow) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    rows.iter()
        .map(read)
        .collect::<std::result::Result<_, _>>()
        .map_err(|problem| StoreError::Database { action, problem })
}

fn whole(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
