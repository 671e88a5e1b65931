//! The hosts that share the database.

use uuid::Uuid;

use super::rows::get;
use super::{PostgresStore, sql_time, text};
use crate::store::instances::{HostBeat, HostPlace, PRESENT, SERVICE, SILENT};
use crate::store::{Result, StoreError};

pub(crate) const REGISTER_HOST: &str = "\
    insert into wh_service_instances as i \
        (instance_id, service_name, host_name, process_id, started_at, last_heartbeat_at, metadata) \
    select $1, $2, $3, $4, t.now, t.now, $5::text::jsonb from (select coalesce($6, clock_timestamp()) as now) t \
    on conflict (instance_id) do update \
    set last_heartbeat_at = greatest(i.last_heartbeat_at, excluded.last_heartbeat_at), metadata = excluded.metadata";

pub(crate) const REMOVE_DEAD_HOSTS: &str = "\
    delete from wh_service_instances i \
    where i.instance_id in (\
        select s.instance_id from wh_service_instances s \
        where s.service_name = $1 and s.last_heartbeat_at < coalesce($3, clock_timestamp()) - make_interval(secs => $2) \
        order by s.instance_id \
        for update skip locked) \
    returning i.instance_id";

pub(crate) const HOST_PLACE: &str = "\
    select count(*) as hosts, count(*) filter (where i.instance_id < $3) as before \
    from wh_service_instances i \
    where i.service_name = $1 and i.last_heartbeat_at >= coalesce($4, clock_timestamp()) - make_interval(secs => $2)";

pub(crate) const REMOVE_HOST: &str = "delete from wh_service_instances where instance_id = $1 and service_name = $2";

impl PostgresStore {
    pub(super) async fn beat(&self, beat: &HostBeat<'_>) -> Result<HostPlace> {
        let (action, silent) = ("register a host", SILENT.as_secs_f64());
        let now = beat.now.map(sql_time);
        let query = self
            .query(REGISTER_HOST)
            .bind(beat.instance_id)
            .bind(SERVICE)
            .bind(text::text(beat.host_name).into_owned())
            .bind(i32::try_from(beat.process_id).unwrap_or(i32::MAX))
            .bind(beat.metadata.to_owned())
            .bind(now);
        self.rows(action, query).await?;
        self.rows("remove dead hosts", self.query(REMOVE_DEAD_HOSTS).bind(SERVICE).bind(silent).bind(now)).await?;
        let query = self.query(HOST_PLACE).bind(SERVICE).bind(PRESENT.as_secs_f64()).bind(beat.instance_id).bind(now);
        let row = self.row(action, query).await?;
        let number = |column| {
            get::<i64>(&row, column)
                .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
                .map_err(|problem| StoreError::Database { action, problem })
        };
        Ok(HostPlace { hosts: number("hosts")?, before: number("before")? })
    }

    pub(super) async fn remove_registered(&self, instance_id: Uuid) -> Result<()> {
        self.rows("remove a host", self.query(REMOVE_HOST).bind(instance_id).bind(SERVICE)).await.map(drop)
    }
}
