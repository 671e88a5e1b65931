//! Listing and counting by filter.

use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use uuid::Uuid;

use super::PostgresStore;
use super::glob::{Pattern, translate};
use super::rows::{entry_columns, get, read};
use crate::model::RecoveryStatus;
use crate::store::{Filter, Page, Result, Row, StoreError};

/// The ids in live batches.
macro_rules! live_ids {
    () => {
        "(select unnest(b.ids) from wh_recovery_batches b where b.expires_at > clock_timestamp())"
    };
}
pub(super) use live_ids;

/// The condition of a filter over `wh_dead_letters d`: status, reason, source table, stream, regular expression.
macro_rules! filter_condition {
    () => {
        concat!(
            "($1::integer is null or case when d.recovered_at is null and d.recovery_status in (0, 1) \
                and d.dead_letter_id in ",
            $crate::store::postgres::operator::live_ids!(),
            " then 1 else d.recovery_status end = $1) \
            and ($1 is null or $1 = 3 or d.recovered_at is null) \
            and ($2::integer is null or d.failure_reason = $2) \
            and ($3::text is null or d.source_table = $3) \
            and ($4::uuid is null or d.stream_id = $4) \
            and ($5::text is null or d.message_type ~ $5)"
        )
    };
}

pub(crate) const LIST: &str = concat!(
    "select ",
    entry_columns!(),
    ", dead_letter_id in ",
    live_ids!(),
    " as live from wh_dead_letters d where ",
    filter_condition!(),
    " and ($6::uuid is null or (d.dead_lettered_at, d.dead_letter_id) < (\
        select a.dead_lettered_at, a.dead_letter_id from wh_dead_letters a where a.dead_letter_id = $6)) \
    order by d.dead_lettered_at desc, d.dead_letter_id desc limit $7"
);

pub(crate) const COUNT_MATCHING: &str =
    concat!("select count(*) as matching from wh_dead_letters d where ", filter_condition!());

pub(crate) const MATCHING_IDS: &str =
    concat!("select d.dead_letter_id from wh_dead_letters d where ", filter_condition!(), " order by d.dead_letter_id");

pub(crate) const EXISTS: &str = "select exists (select from wh_dead_letters d where d.dead_letter_id = $1) as found";

impl PostgresStore {
    pub(super) async fn list_rows(&self, filter: &Filter, page: &Page) -> Result<Vec<Row>> {
        let action = "list dead letters";
        if let Some(after) = page.after {
            let row = self.row(action, self.query(EXISTS).bind(after)).await?;
            if get(&row, "found") != Ok(true) {
                return Err(StoreError::NotFound(format!("no dead letter {after} to list after")));
            }
        }
        let Some(query) = self.filtered(LIST, filter) else { return Ok(Vec::new()) };
        let rows = self.rows(action, query.bind(page.after).bind(i64::from(page.limit))).await?;
        Ok(rows.iter().map(shown).collect())
    }

    pub(super) async fn count_rows(&self, filter: &Filter) -> Result<u64> {
        let action = "count dead letters";
        let Some(query) = self.filtered(COUNT_MATCHING, filter) else { return Ok(0) };
        let row = self.row(action, query).await?;
        let matching = get::<i64>(&row, "matching").map_err(|problem| StoreError::Database { action, problem })?;
        Ok(u64::try_from(matching).unwrap_or(0))
    }

    /// The ids that a filter matches, in their order.
    pub(super) async fn matching_ids(&self, filter: &Filter) -> Result<Vec<Uuid>> {
        let Some(query) = self.filtered(MATCHING_IDS, filter) else { return Ok(Vec::new()) };
        let rows = self.rows("list dead letters", query).await?;
        Ok(rows.iter().filter_map(|row| get(row, "dead_letter_id").ok()).collect())
    }

    /// A statement with the filter's parameters bound; `None` when the filter cannot match any row.
    fn filtered(&self, sql: &'static str, filter: &Filter) -> Option<Query<'static, Postgres, PgArguments>> {
        let regex = match filter.message_type.as_deref().map(translate) {
            Some(Pattern::Nothing) => return None,
            Some(Pattern::Regex(regex)) if regex.contains('\0') => return None,
            Some(Pattern::Regex(regex)) => Some(regex),
            None => None,
        };
        // Planned anew each time, for the conditions that are given.
        let query = sqlx::query(sql).persistent(false);
        Some(
            query
                .bind(filter.status.map(RecoveryStatus::number))
                .bind(filter.reason.map(|reason| reason.0))
                .bind(filter.source_table.map(|table| table.name()))
                .bind(filter.stream_id)
                .bind(regex),
        )
    }
}

/// A row with the status that people are shown.
pub(super) fn shown(row: &PgRow) -> Row {
    let mut read = read(row);
    if let Row::Readable(entry) = &mut read {
        let open = matches!(entry.recovery_status, RecoveryStatus::Pending | RecoveryStatus::Recovering);
        if open && get(row, "live") == Ok(true) {
            entry.recovery_status = RecoveryStatus::Recovering;
        }
    }
    read
}
