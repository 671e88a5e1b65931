//! The operator's verbs.

use std::collections::HashSet;

use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::rows::get;
use super::{PostgresStore, sql_time, text};
use crate::store::operator::Unchanged;
use crate::store::{ChangeOutcome, OperatorChange, Result, StoreError, Target};

/// Rows per transaction.
const CHUNK: usize = 1000;

pub(crate) const CHANGE: &str = "select dead_letter_id, result from reprieve_change($1, $2, $3, $4, $5, $6)";

impl PostgresStore {
    pub(super) async fn change_rows(&self, request: &OperatorChange<'_>) -> Result<Vec<ChangeOutcome>> {
        let ids = match &request.target {
            Target::Ids(ids) => distinct(ids),
            Target::Filter(filter) if filter.is_empty() => {
                return Err(StoreError::Invalid("an operator's verb needs ids or a filter".to_owned()));
            }
            Target::Filter(filter) => self.matching_ids(filter).await?,
        };
        let mut outcomes = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(CHUNK) {
            let query = self
                .query(CHANGE)
                .bind(request.verb.name())
                .bind(chunk.to_vec())
                .bind(chunk.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>())
                .bind(text::text(request.actor).into_owned())
                .bind(text::optional(request.note).map(std::borrow::Cow::into_owned))
                .bind(request.now.map(sql_time));
            let rows = self.rows("change dead letters", query).await?;
            outcomes.extend(rows.iter().filter_map(outcome));
        }
        Ok(outcomes)
    }
}

/// The ids in the order given, each once.
fn distinct(ids: &[Uuid]) -> Vec<Uuid> {
    let mut seen = HashSet::new();
    ids.iter().copied().filter(|id| seen.insert(*id)).collect()
}

fn outcome(row: &PgRow) -> Option<ChangeOutcome> {
    let dead_letter_id = get(row, "dead_letter_id").ok()?;
    let result = match get::<&str>(row, "result").ok()? {
        "changed" => Ok(()),
        "recovered" => Err(Unchanged::AlreadyRecovered),
        "busy" => Err(Unchanged::BeingRecovered),
        _ => Err(Unchanged::UnknownId),
    };
    Some(ChangeOutcome { dead_letter_id, result })
}
