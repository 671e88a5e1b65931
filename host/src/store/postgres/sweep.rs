//! What changes many rows at once, chunk by chunk.

use jiff::Timestamp;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use super::rows::get;
use super::{PostgresStore, sql_time};
use crate::store::passes::CHUNK;
use crate::store::{ClearDeferrals, Cleared, Result, StoreError, Sweep};

pub(crate) const RESET: &str = "select reset_dead_letters_for_generation($1)::bigint as changed";

pub(crate) const UNSWEPT: &str = "\
    select coalesce(cardinality(ids), 0)::bigint as rows, looked_at, last_at::text as last_at, last_id \
    from reprieve_unswept($1, $2::text::timestamptz, $3, $4)";

pub(crate) const SWEEP: &str = "\
    select swept as rows, looked_at, last_at::text as last_at, last_id \
    from reprieve_sweep($1, $2, make_interval(secs => $3), $4, $5, $6::text::timestamptz, $7, $8)";

pub(crate) const TAKE_RETRIES: &str = "select taken, problem, last_id from reprieve_take_retries($1, $2, $3)";

pub(crate) const CLEAR_DEFERRALS: &str = "\
    select looked_at, cleared, last_id::text as last_id \
    from reprieve_clear_policy_deferrals($1, $2, $3::text::uuid, $4, $5)";

/// Up to where the rows have been looked at.
#[derive(Default)]
struct Place {
    /// As text, since it may lie at `infinity`.
    at: Option<String>,
    id: Option<Uuid>,
    is_last: bool,
}

impl PostgresStore {
    pub(super) async fn reset(&self, generation: &str) -> Result<u64> {
        self.changed("sweep dead letters", self.query(RESET).bind(generation.to_owned())).await
    }

    pub(super) async fn sweep_all(&self, request: &Sweep<'_>) -> Result<u64> {
        let action = "sweep dead letters";
        let now = self.clock(action, request.now).await?;
        let total = if request.stagger.is_zero() { 0 } else { self.unswept(request.generation).await? };
        let (mut swept, mut place) = (0_i64, Place::default());
        loop {
            let query = self
                .query(SWEEP)
                .bind(request.generation.to_owned())
                .bind(sql_time(now))
                .bind(request.stagger.as_secs_f64())
                .bind(swept)
                .bind(total);
            swept += self.chunk(action, query, &mut place).await?;
            if place.is_last {
                return Ok(u64::try_from(swept).unwrap_or(0));
            }
        }
    }

    /// How many rows a sweep is about to reach.
    async fn unswept(&self, generation: &str) -> Result<i64> {
        let (mut total, mut place) = (0, Place::default());
        while !place.is_last {
            let query = self.query(UNSWEPT).bind(generation.to_owned());
            total += self.chunk("count the rows to sweep", query, &mut place).await?;
        }
        Ok(total)
    }

    /// Works on the next chunk after a place, which goes on; the rows in it.
    async fn chunk(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
        place: &mut Place,
    ) -> Result<i64> {
        let unread = |problem| StoreError::Database { action, problem };
        let row = self.row(action, query.bind(place.at.take()).bind(place.id).bind(CHUNK)).await?;
        place.at = get(&row, "last_at").map_err(unread)?;
        place.id = get(&row, "last_id").map_err(unread)?;
        place.is_last = get::<i64>(&row, "looked_at").map_err(unread)? < i64::from(CHUNK);
        get(&row, "rows").map_err(unread)
    }

    pub(super) async fn take_retries(&self, now: Option<Timestamp>) -> Result<u64> {
        let action = "take operators' retries";
        let unread = |problem| StoreError::Database { action, problem };
        let (mut total, mut refused, mut after) = (0, None, None::<Uuid>);
        loop {
            let query = self.query(TAKE_RETRIES).bind(after).bind(CHUNK).bind(now.map(sql_time));
            let row = self.row(action, query).await?;
            total += get::<i64>(&row, "taken").map_err(unread)?;
            refused = refused.or(get::<Option<String>>(&row, "problem").map_err(unread)?);
            after = get(&row, "last_id").map_err(unread)?;
            if after.is_none() {
                break;
            }
        }
        refused.map_or(Ok(u64::try_from(total).unwrap_or(0)), |problem| Err(unread(problem)))
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
