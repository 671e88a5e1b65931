//! The contract's verbs, by calling the functions that applications call.

use jiff::Timestamp;
use uuid::Uuid;

use super::rows::{entry_columns, get, read};
use super::{PostgresStore, sql_time, text};
use crate::store::{Move, Moved, Result, Row};

pub(crate) const MOVE: &str = "select reprieve_move($1, $2, $3, $4, $5, $6, $7, coalesce($8, now())) as dead_letter_id";

pub(crate) const FETCH: &str =
    concat!("select ", entry_columns!(), " from fetch_dead_letters_due(coalesce($1, now()), $2)");

pub(crate) const RECOVER: &str = "select reprieve_recover($1, coalesce($2, now())) as recovered";

pub(crate) const HOLD: &str = "select mark_dead_letter_holding($1)::text";

pub(crate) const GIVE_UP: &str = "select mark_dead_letter_permanently_failed($1)::text";

pub(crate) const SCHEDULE: &str = "select schedule_next_dead_letter_attempt($1, $2)::text";

impl PostgresStore {
    pub(super) async fn move_row(&self, request: &Move) -> Result<Option<Moved>> {
        let query = self
            .query(MOVE)
            .bind(request.dead_letter_id)
            .bind(request.source_table.name())
            .bind(request.source_id)
            .bind(request.failure_reason.0)
            .bind(text::optional(request.error_text.as_deref()))
            .bind(request.instance_id)
            .bind(text::text(&request.generation))
            .bind(request.now.map(sql_time));
        let row = self.row("move a row to the dead letters", query).await?;
        Ok(get::<Uuid>(&row, "dead_letter_id").ok().map(|dead_letter_id| Moved { dead_letter_id }))
    }

    pub(super) async fn fetch_due(&self, now: Option<Timestamp>, max: u32) -> Result<Vec<Row>> {
        let max = i32::try_from(max).unwrap_or(i32::MAX);
        let query = self.query(FETCH).bind(now.map(sql_time)).bind(max);
        Ok(self.rows("fetch due dead letters", query).await?.iter().map(read).collect())
    }

    pub(super) async fn recover(&self, id: Uuid, now: Option<Timestamp>) -> Result<bool> {
        let query = self.query(RECOVER).bind(id).bind(now.map(sql_time));
        let row = self.row("recover a dead letter", query).await?;
        Ok(get(&row, "recovered") == Ok(true))
    }

    pub(super) async fn hold(&self, id: Uuid) -> Result<()> {
        self.rows("hold a dead letter", self.query(HOLD).bind(id)).await.map(drop)
    }

    pub(super) async fn give_up(&self, id: Uuid) -> Result<()> {
        self.rows("give up a dead letter", self.query(GIVE_UP).bind(id)).await.map(drop)
    }

    pub(super) async fn schedule(&self, id: Uuid, at: Timestamp) -> Result<()> {
        let query = self.query(SCHEDULE).bind(id).bind(sql_time(at));
        self.rows("schedule a dead letter", query).await.map(drop)
    }
}
