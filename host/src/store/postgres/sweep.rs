//! What changes many rows at once, chunk by chunk.

use jiff::Timestamp;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use super::rows::{get, time};
use super::{PostgresStore, sql_time};
use crate::store::passes::CHUNK;
use crate::store::{ClearDeferrals, Cleared, Result, StoreError, Sweep};

pub(crate) const RESET: &str = "select reset_dead_letters_for_generation($1)::bigint as changed";

pub(crate) const COUNT: &str = "\
    select coalesce($2, clock_timestamp()) as now, (\
        select count(*) from wh_dead_letters d \
        where d.recovered_at is null and d.recovery_status <> 4 and d.operator_disposition <> 2 \
            and not $1 = any (d.retried_on_generations)) as total";

pub(crate) const SWEEP: &str = "\
    select swept, looked_at, last_at::text as last_at, last_id \
    from reprieve_sweep($1, $2, make_interval(secs => $3), $4, $5, $6::text::timestamptz, $7, $8)";

pub(crate) const TAKE_RETRIES: &str = "select reprieve_take_retries($1, $2) as changed";

pub(crate) const CLEAR_DEFERRALS: &str = "\
    select looked_at, cleared, last_id::text as last_id \
    from reprieve_clear_policy_deferrals($1, $2, $3::text::uuid, $4, $5)";

impl PostgresStore {
    pub(super) async fn reset(&self, generation: &str) -> Result<u64> {
        self.changed("sweep dead letters", self.query(RESET).bind(generation.to_owned())).await
    }

    pub(super) async fn sweep_all(&self, request: &Sweep<'_>) -> Result<u64> {
        let action = "sweep dead letters";
        let unread = |problem| StoreError::Database { action, problem };
        let query = self.query(COUNT).bind(request.generation.to_owned()).bind(request.now.map(sql_time));
        let row = self.row(action, query).await?;
        let now = time(&row, "now").map_err(unread)?;
        let total: i64 = get(&row, "total").map_err(unread)?;
        // As text, since a place may lie at `infinity`.
        let (mut swept, mut last_at, mut last_id) = (0_i64, None::<String>, None::<Uuid>);
        loop {
            let query = self
                .query(SWEEP)
                .bind(request.generation.to_owned())
                .bind(sql_time(now))
                .bind(request.stagger.as_secs_f64())
                .bind(swept)
                .bind(total)
                .bind(last_at)
                .bind(last_id)
                .bind(CHUNK);
            let row = self.row(action, query).await?;
            swept += get::<i64>(&row, "swept").map_err(unread)?;
            if get::<i64>(&row, "looked_at").map_err(unread)? < i64::from(CHUNK) {
                return Ok(u64::try_from(swept).unwrap_or(0));
            }
            last_at = get(&row, "last_at").map_err(unread)?;
            last_id = get(&row, "last_id").map_err(unread)?;
        }
    }

    pub(super) async fn take_retries(&self, now: Option<Timestamp>) -> Result<u64> {
        let mut total = 0;
        loop {
            let query = self.query(TAKE_RETRIES).bind(CHUNK).bind(now.map(sql_time));
            let taken = self.changed("take operators' retries", query).await?;
            if taken == 0 {
                return Ok(total);
            }
            total += taken;
        }
    }

    pub(super) async fn clear_deferrals(&self, request: &ClearDeferrals<'_>) -> Result<Cleared> {
        let action = "clear deferrals";
        let unread = |problem| StoreError::Database { action, problem };
        let query = self
            .query(CLEAR_DEFERRALS)
            .bind(request.digest.to_owned())
            .bind(request.unknown)
            .bind(request.after.map(str::to_owned))
            .bind(CHUNK)
            .bind(request.now.map(sql_time));
        let row = self.row(action, query).await?;
        let looked_at: i64 = get(&row, "looked_at").map_err(unread)?;
        let cleared: i64 = get(&row, "cleared").map_err(unread)?;
        let last: Option<String> = get(&row, "last_id").map_err(unread)?;
        Ok(Cleared { rows: u64::try_from(cleared).unwrap_or(0), next: last.filter(|_| looked_at >= i64::from(CHUNK)) })
    }

    async fn changed(&self, action: &'static str, query: Query<'_, Postgres, PgArguments>) -> Result<u64> {
        let row = self.row(action, query).await?;
        let changed = get::<i64>(&row, "changed").map_err(|problem| StoreError::Database { action, problem })?;
        Ok(u64::try_from(changed).unwrap_or(0))
    }
}
