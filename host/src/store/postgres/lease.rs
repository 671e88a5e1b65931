//! How batches last and end, and when there is something to do.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::rows::{get, optional_time, time};
use super::{PostgresStore, sql_time};
use crate::model::FailureReason;
use crate::store::{Due, Rescued, Result, StoreError};

pub(crate) const RENEW: &str = "\
    update wh_recovery_batches \
    set expires_at = coalesce($3, clock_timestamp()) + make_interval(secs => $2) \
    where batch_id = $1 \
    returning batch_id";

pub(crate) const RELEASE: &str = "select reprieve_release($1)";

pub(crate) const RESCUE: &str = "select batches, attempts, policy_errors, held from reprieve_rescue($1, $2)";

pub(crate) const DUE: &str = "select now, due_now, next_at from reprieve_due($1, $2)";

impl PostgresStore {
    pub(super) async fn renew_batch(&self, batch_id: Uuid, lease: Duration, now: Option<Timestamp>) -> Result<bool> {
        let query = self.query(RENEW).bind(batch_id).bind(lease.as_secs_f64()).bind(now.map(sql_time));
        Ok(!self.rows("renew a batch", query).await?.is_empty())
    }

    pub(super) async fn release_batch(&self, batch_id: Uuid) -> Result<()> {
        self.rows("release a batch", self.query(RELEASE).bind(batch_id)).await.map(drop)
    }

    pub(super) async fn rescue_batches(&self, max_policy_errors: u32, now: Option<Timestamp>) -> Result<Rescued> {
        let action = "rescue batches";
        let max = i32::try_from(max_policy_errors).unwrap_or(i32::MAX);
        let row = self.row(action, self.query(RESCUE).bind(max).bind(now.map(sql_time))).await?;
        let number = |column| {
            get::<i64>(&row, column)
                .map(|number| u64::try_from(number).unwrap_or(0))
                .map_err(|problem| StoreError::Database { action, problem })
        };
        let held: Vec<i32> = get(&row, "held").map_err(|problem| StoreError::Database { action, problem })?;
        Ok(Rescued {
            batches: number("batches")?,
            attempts: number("attempts")?,
            policy_errors: number("policy_errors")?,
            held: held.into_iter().map(FailureReason).collect(),
        })
    }

    pub(super) async fn probe(&self, generation: &str, now: Option<Timestamp>) -> Result<Due> {
        let action = "look for due dead letters";
        let query = self.query(DUE).bind(generation.to_owned()).bind(now.map(sql_time));
        let row = self.row(action, query).await?;
        let unread = |problem| StoreError::Database { action, problem };
        Ok(Due {
            now: time(&row, "now").map_err(unread)?,
            due_now: get(&row, "due_now").map_err(unread)?,
            // A time that cannot be read (`infinity`) never comes.
            next_at: optional_time(&row, "next_at").unwrap_or(None),
        })
    }
}
