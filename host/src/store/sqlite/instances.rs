//! The hosts of the file: the one that recovers, and dead ones until their time is over.

use jiff::Timestamp;
use uuid::Uuid;

use super::SqliteStore;
use super::values::{Cell, time_text};
use crate::store::Result;
use crate::store::instances::{HostBeat, HostPlace, PRESENT, SERVICE, SILENT};

const REGISTER: &str = "insert into wh_service_instances \
    (instance_id, service_name, host_name, process_id, started_at, last_heartbeat_at, metadata) \
    values (?1, ?2, ?3, ?4, ?5, ?5, ?6) \
    on conflict (instance_id) do update \
    set last_heartbeat_at = max(last_heartbeat_at, excluded.last_heartbeat_at), metadata = excluded.metadata";
const REMOVE_DEAD: &str = "delete from wh_service_instances where service_name = ? and last_heartbeat_at < ?";
const PLACE: &str = "select count(*), coalesce(sum(instance_id < ?2), 0) from wh_service_instances \
    where service_name = ?1 and last_heartbeat_at >= ?3";
const REMOVE: &str = "delete from wh_service_instances where instance_id = ? and service_name = ?";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("instances::REGISTER", REGISTER),
    ("instances::REMOVE_DEAD", REMOVE_DEAD),
    ("instances::PLACE", PLACE),
    ("instances::REMOVE", REMOVE),
];

pub(super) async fn beat(store: &SqliteStore, beat: &HostBeat<'_>) -> Result<HostPlace> {
    let fault = |error| store.fault.of("register a host", error);
    let mut write = store.write(beat.now).await?;
    let (id, now) = (beat.instance_id.to_string(), time_text(write.now));
    let query = sqlx::query(REGISTER).bind(id.clone()).bind(SERVICE).bind(beat.host_name.to_owned());
    let query = query.bind(beat.process_id).bind(now).bind(beat.metadata.to_owned());
    query.execute(&mut write.conn).await.map_err(fault)?;
    let ago = |time| time_text(write.now.checked_sub(time).unwrap_or(Timestamp::MIN));
    let (silent_since, present_since) = (ago(SILENT), ago(PRESENT));
    let query = sqlx::query(REMOVE_DEAD).bind(SERVICE).bind(silent_since);
    query.execute(&mut write.conn).await.map_err(fault)?;
    let row = sqlx::query(PLACE)
        .bind(SERVICE)
        .bind(id)
        .bind(present_since)
        .fetch_one(&mut write.conn)
        .await
        .map_err(fault)?;
    write.commit().await?;
    let number = |at| Cell::at(&row, at).integer().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    Ok(HostPlace { hosts: number(0), before: number(1) })
}

pub(super) async fn remove(store: &SqliteStore, instance_id: Uuid) -> Result<()> {
    let mut write = store.write(None).await?;
    let query = sqlx::query(REMOVE).bind(instance_id.to_string()).bind(SERVICE);
    query.execute(&mut write.conn).await.map_err(|error| store.fault.of("remove a host", error))?;
    write.commit().await
}
