//! Streams that keep their order.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PostgresStore;
use super::rows::{get, optional_time};
use crate::model::decision::Predecessor;
use crate::store::{InStream, Result, StoreError, StreamOrder};

pub(crate) const STREAM_ORDER: &str = "\
    select dead_letter_id, predecessor, predecessor_due_at from reprieve_stream_order($1, $2, $3, $4)";

pub(crate) const WAITS_FOR: &str = "\
    select dead_letter_id, predecessor from reprieve_waits_for($1) where predecessor is not null";

impl PostgresStore {
    pub(super) async fn order_in_streams(&self, request: &StreamOrder<'_>) -> Result<Vec<InStream>> {
        let action = "look for earlier dead letters of their streams";
        let query = self
            .query(STREAM_ORDER)
            .bind(request.ids.to_vec())
            .bind(request.passed.to_vec())
            .bind(request.standing.to_vec())
            .bind(request.held_blocks);
        let rows = self.rows(action, query).await?;
        rows.iter().map(|row| in_stream(row).map_err(|problem| StoreError::Database { action, problem })).collect()
    }

    pub(super) async fn find_predecessors(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
        let action = "look for what dead letters wait for";
        let rows = self.rows(action, self.query(WAITS_FOR).bind(ids.to_vec())).await?;
        let pair = |row| Ok((get(row, "dead_letter_id")?, get(row, "predecessor")?));
        rows.iter().map(|row| pair(row).map_err(|problem| StoreError::Database { action, problem })).collect()
    }
}

fn in_stream(row: &PgRow) -> std::result::Result<InStream, String> {
    let predecessor = get::<Option<Uuid>>(row, "predecessor")?;
    // A time that cannot be read (`infinity`) never comes.
    let due_at = optional_time(row, "predecessor_due_at").unwrap_or(None);
    Ok(InStream {
        dead_letter_id: get(row, "dead_letter_id")?,
        predecessor: predecessor.map(|dead_letter_id| Predecessor { dead_letter_id, due_at }),
    })
}
