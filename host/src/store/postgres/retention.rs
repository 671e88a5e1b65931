//! Deleting what was recorded long ago.

use super::rows::get;
use super::{PostgresStore, sql_time};
use crate::store::passes::CHUNK;
use crate::store::{Forget, Forgotten, Result, StoreError};

pub(crate) const FORGET_DECISIONS: &str = "\
    select looked_at, forgotten, last_id::text as last_id \
    from reprieve_forget_decisions(make_interval(secs => $1), $2::text::uuid, $3, $4)";

impl PostgresStore {
    pub(super) async fn forget(&self, request: &Forget<'_>) -> Result<Forgotten> {
        let action = "forget recorded decisions";
        let unread = |problem| StoreError::Database { action, problem };
        let query = self
            .query(FORGET_DECISIONS)
            .bind(request.keep.as_secs_f64())
            .bind(request.after.map(str::to_owned))
            .bind(i32::try_from(CHUNK).unwrap_or(i32::MAX))
            .bind(request.now.map(sql_time));
        // No row: another host is at it.
        let Some(row) = self.rows(action, query).await?.into_iter().next() else { return Ok(Forgotten::default()) };
        let looked_at: i64 = get(&row, "looked_at").map_err(unread)?;
        let forgotten: i64 = get(&row, "forgotten").map_err(unread)?;
        let last: Option<String> = get(&row, "last_id").map_err(unread)?;
        Ok(Forgotten {
            decisions: u64::try_from(forgotten).unwrap_or(0),
            next: last.filter(|_| looked_at >= i64::from(CHUNK)),
        })
    }
}
