//! Deleting what was recorded long ago.

use std::time::Duration;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::rows::get;
use super::{PostgresStore, sql_time};
use crate::store::passes::CHUNK;
use crate::store::{Forget, Forgotten, KeepSettled, Result, StoreError};

pub(crate) const FORGET_DECISIONS: &str = "\
    select looked_at, forgotten, last_id::text as last_id \
    from reprieve_forget_decisions(make_interval(secs => $1), $2::text::uuid, $3, $4)";

pub(crate) const FORGET_SETTLED: &str = "\
    select looked_at, forgotten, last_id::text as last_id \
    from reprieve_forget_settled(make_interval(secs => $1), make_interval(secs => $2), $3::text::uuid, $4, $5)";

impl PostgresStore {
    pub(super) async fn forget_recorded(&self, request: &Forget<'_, Duration>) -> Result<Forgotten> {
        let query = self.query(FORGET_DECISIONS).bind(request.keep.as_secs_f64());
        self.forget("forget recorded decisions", query, request).await
    }

    pub(super) async fn forget_letters(&self, request: &Forget<'_, KeepSettled>) -> Result<Forgotten> {
        let KeepSettled { recovered, permanently_failed } = request.keep;
        let seconds = |keep: Option<Duration>| keep.map(|keep| keep.as_secs_f64());
        let query = self.query(FORGET_SETTLED).bind(seconds(recovered)).bind(seconds(permanently_failed));
        self.forget("forget settled dead letters", query, request).await
    }

    /// Runs one chunk of a pass, with what is the same for all of them bound last.
    async fn forget<K>(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
        request: &Forget<'_, K>,
    ) -> Result<Forgotten> {
        let unread = |problem| StoreError::Database { action, problem };
        let query = query.bind(request.after.map(str::to_owned)).bind(CHUNK).bind(request.now.map(sql_time));
        // No row: another host is at it.
        let Some(row) = self.rows(action, query).await?.into_iter().next() else { return Ok(Forgotten::default()) };
        let looked_at: i64 = get(&row, "looked_at").map_err(unread)?;
        let forgotten: i64 = get(&row, "forgotten").map_err(unread)?;
        let last: Option<String> = get(&row, "last_id").map_err(unread)?;
        Ok(Forgotten {
            rows: u64::try_from(forgotten).unwrap_or(0),
            next: last.filter(|_| looked_at >= i64::from(CHUNK)),
        })
    }
}
