//! Looking at a row of a source table.

use uuid::Uuid;

use super::PostgresStore;
use super::rows::get;
use crate::model::SourceTable;
use crate::store::{Result, StoreError};

pub(crate) const OUTBOX_ROW: &str = "select row_to_json(s)::text as columns from wh_outbox s where s.message_id = $1";
pub(crate) const INBOX_ROW: &str = "select row_to_json(s)::text as columns from wh_inbox s where s.message_id = $1";
pub(crate) const PERSPECTIVE_ROW: &str =
    "select row_to_json(s)::text as columns from wh_perspective_events s where s.event_work_id = $1";

impl PostgresStore {
    pub(super) async fn look_at_source(&self, table: SourceTable, id: Uuid) -> Result<Option<String>> {
        let action = "show a source row";
        let statement = match table {
            SourceTable::Outbox => OUTBOX_ROW,
            SourceTable::Inbox => INBOX_ROW,
            SourceTable::PerspectiveEvents => PERSPECTIVE_ROW,
        };
        let rows = self.rows(action, self.query(statement).bind(id)).await?;
        rows.first()
            .map(|row| get(row, "columns"))
            .transpose()
            .map_err(|problem| StoreError::Database { action, problem })
    }
}
