//! Looking at a row of a source table.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::SqliteStore;
use super::catalogue;
use super::stored_value::encode;
use crate::model::SourceTable;
use crate::store::Result;

/// See [`crate::store::OperatorStore::source_row`].
pub(super) async fn source_row(store: &SqliteStore, table: SourceTable, id: Uuid) -> Result<Option<String>> {
    let mut conn = store.read().await?;
    let row = catalogue::source_row(&mut conn, table, id).await;
    let row = row.map_err(|error| store.fault.of("show a source row", error))?;
    Ok(row.map(|cells| {
        let columns: Map<String, Value> = cells.iter().map(|(name, cell)| (name.clone(), encode(cell))).collect();
        Value::Object(columns).to_string()
    }))
}
