//! Reports about rows of perspectives, and who is alive.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::connect::Write;
use super::values::{Cell, json_ids, time_text};
use super::{SqliteStore, moving_leased, perspective_claim, perspective_orphans};
use crate::model::text::clean;
use crate::model::time::later;
use crate::store::Result;
use crate::store::perspective::{
    ClaimedEvent, EventClaim, EventFailure, Heartbeat, LeasedMove, LeasedMoves, Orphan, OrphanClaim, PerspectiveStore,
    backoff,
};

const COMPLETE: &str = "update wh_perspective_events set processed_at = ?1, lease_expiry = null \
    where event_work_id in (select value from json_each(?2)) and instance_id = ?3 and processed_at is null \
    returning event_work_id";
const OWNED: &str = "select attempts from wh_perspective_events \
    where event_work_id = ? and instance_id = ? and processed_at is null";
const FAIL: &str = "update wh_perspective_events set error = ?, failure_reason = ?, scheduled_for = ?, \
    instance_id = null, lease_expiry = null where event_work_id = ?";
const HEARTBEAT: &str = "insert into wh_service_instances \
    (instance_id, service_name, host_name, process_id, started_at, last_heartbeat_at) values (?1, ?2, ?3, ?4, ?5, ?5) \
    on conflict (instance_id) do update set last_heartbeat_at = excluded.last_heartbeat_at";
const REMOVE_STALE: &str = "delete from wh_service_instances where last_heartbeat_at < ? returning instance_id";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("perspective::COMPLETE", COMPLETE),
    ("perspective::OWNED", OWNED),
    ("perspective::FAIL", FAIL),
    ("perspective::HEARTBEAT", HEARTBEAT),
    ("perspective::REMOVE_STALE", REMOVE_STALE),
];

#[async_trait]
impl PerspectiveStore for SqliteStore {
    async fn claim_events(&self, claim: &EventClaim<'_>) -> Result<Vec<ClaimedEvent>> {
        perspective_claim::claim(self, claim).await
    }

    async fn claim_orphaned_events(&self, claim: &OrphanClaim) -> Result<Vec<Orphan>> {
        perspective_orphans::claim(self, claim).await
    }

    async fn complete_events(&self, instance_id: Uuid, ids: &[Uuid], now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        let mut write = self.write(now).await?;
        let query = sqlx::query(COMPLETE).bind(time_text(write.now)).bind(json_ids(ids.iter().copied()));
        let rows = query.bind(instance_id.to_string()).fetch_all(&mut write.conn).await;
        let rows = rows.map_err(|error| self.fault.of("complete perspective events", error))?;
        write.commit().await?;
        Ok(first_ids(&rows))
    }

    async fn fail_events(
        &self,
        instance_id: Uuid,
        failures: &[EventFailure],
        now: Option<Timestamp>,
    ) -> Result<Vec<Uuid>> {
        let mut write = self.write(now).await?;
        let mut taken = Vec::with_capacity(failures.len());
        for failure in failures {
            let failed = fail(&mut write, instance_id, failure).await;
            if failed.map_err(|error| self.fault.of("fail perspective events", error))? {
                taken.push(failure.event_work_id);
            }
        }
        write.commit().await?;
        Ok(taken)
    }

    async fn pending_streams(&self, instance_id: Uuid, max: u32, now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        perspective_orphans::pending(self, instance_id, max, now).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<()> {
        let mut write = self.write(heartbeat.now).await?;
        let query = sqlx::query(HEARTBEAT)
            .bind(heartbeat.instance_id.to_string())
            .bind(heartbeat.service_name.to_owned())
            .bind(heartbeat.host_name.to_owned())
            .bind(heartbeat.process_id)
            .bind(time_text(write.now));
        let done = query.execute(&mut write.conn).await;
        done.map_err(|error| self.fault.of("register an instance", error))?;
        write.commit().await
    }

    async fn remove_stale_instances(&self, silent: Duration, now: Option<Timestamp>) -> Result<Vec<Uuid>> {
        let mut write = self.write(now).await?;
        let before = write.now.checked_sub(silent).unwrap_or(Timestamp::MIN);
        let rows = sqlx::query(REMOVE_STALE).bind(time_text(before)).fetch_all(&mut write.conn).await;
        let rows = rows.map_err(|error| self.fault.of("remove stale instances", error))?;
        write.commit().await?;
        Ok(first_ids(&rows))
    }

    async fn move_leased(&self, moves: &LeasedMoves<'_>) -> Result<Vec<LeasedMove>> {
        moving_leased::move_leased(self, moves).await
    }
}

async fn fail(
    write: &mut Write<'_>,
    instance_id: Uuid,
    failure: &EventFailure,
) -> std::result::Result<bool, sqlx::Error> {
    let id = failure.event_work_id.to_string();
    let query = sqlx::query(OWNED).bind(id.clone()).bind(instance_id.to_string());
    let Some(row) = query.fetch_optional(&mut write.conn).await? else {
        return Ok(false);
    };
    let attempts = Cell::at(&row, 0).integer().and_then(|number| i32::try_from(number).ok()).unwrap_or(i32::MAX);
    sqlx::query(FAIL)
        .bind(clean(&failure.error))
        .bind(failure.reason.0)
        .bind(time_text(later(write.now, backoff(attempts))))
        .bind(id)
        .execute(&mut write.conn)
        .await?;
    Ok(true)
}

fn first_ids(rows: &[SqliteRow]) -> Vec<Uuid> {
    rows.iter().filter_map(|row| Cell::at(row, 0).uuid()).collect()
}
