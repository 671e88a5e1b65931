//! The numbers of the whole table.

use jiff::Timestamp;

use super::operator::live_ids;
use super::rows::{get, numbered, optional_time};
use super::{PostgresStore, sql_time};
use crate::model::{FailureReason, RecoveryStatus, SourceTable};
use crate::store::{Result, Stats, StoreError};

pub(crate) const TOTALS: &str = concat!(
    "select t.status as recovery_status, t.failure_reason, t.source_table, count(*) as rows from (\
        select case when d.recovered_at is null and d.recovery_status in (0, 1) and d.dead_letter_id in ",
    live_ids!(),
    " then 1 else d.recovery_status end as status, d.failure_reason, d.source_table \
        from wh_dead_letters d) t \
    group by 1, 2, 3"
);

pub(crate) const FINGERPRINTS: &str = "\
    select d.error_fingerprint::text as fingerprint, count(*) as rows from wh_dead_letters d \
    where d.error_fingerprint is not null \
    group by 1 order by 2 desc, 1 limit 100";

pub(crate) const OLDEST_DUE: &str = "\
    select min(coalesce(d.next_recovery_at, d.dead_lettered_at)) as oldest_due from wh_dead_letters d \
    where d.recovered_at is null and d.recovery_status not in (2, 3, 4) and d.operator_disposition not in (2, 3) \
        and coalesce(d.next_recovery_at, d.dead_lettered_at) <= coalesce($1, clock_timestamp())";

impl PostgresStore {
    pub(super) async fn count_all(&self, now: Option<Timestamp>) -> Result<Stats> {
        let action = "count dead letters";
        let unread = |problem| StoreError::Database { action, problem };
        let mut stats = Stats::default();
        for status in RecoveryStatus::ALL {
            stats.by_status.insert(*status, 0);
        }
        for row in &self.rows(action, self.query(TOTALS)).await? {
            let rows = amount(get(row, "rows").map_err(unread)?);
            // A value that has no name keeps its row out of one table of numbers, not out of the others.
            if let Ok(status) = numbered::<RecoveryStatus>(row, "recovery_status") {
                *stats.by_status.entry(status).or_default() += rows;
            }
            if let Ok(reason) = get(row, "failure_reason") {
                *stats.by_reason.entry(FailureReason(reason)).or_default() += rows;
            }
            if let Some(table) = get::<&str>(row, "source_table").ok().and_then(|name| name.parse::<SourceTable>().ok())
            {
                *stats.by_source_table.entry(table).or_default() += rows;
            }
        }
        for row in &self.rows(action, self.query(FINGERPRINTS)).await? {
            stats
                .by_fingerprint
                .push((get(row, "fingerprint").map_err(unread)?, amount(get(row, "rows").map_err(unread)?)));
        }
        let row = self.row(action, self.query(OLDEST_DUE).bind(now.map(sql_time))).await?;
        stats.oldest_due = optional_time(&row, "oldest_due").unwrap_or(None);
        Ok(stats)
    }
}

fn amount(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
