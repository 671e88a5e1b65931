//! The PostgreSQL store: many hosts share it, and applications call the same functions.
//!
//! The state changes are functions in the database (see `migrations/postgres`); this module calls them, each step in
//! one round trip, and reads what they answer.

mod batch;
mod change;
mod chunks;
mod connect;
mod error;
mod functions;
mod glob;
mod import;
mod instances;
mod lease;
mod listen;
mod look;
mod migrate;
mod operator;
mod perspective;
mod records;
mod retention;
mod rows;
mod schema;
mod show;
mod statements;
mod stats;
mod streams;
mod survey;
mod sweep;
mod text;
mod verbs;
mod warm;

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::postgres::{PgConnectOptions, PgPool};
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

use super::{
    Begin, Begun, ChangeOutcome, Claim, ClaimRequest, ClearDeferrals, Cleared, Cursor, Due, Filter, Forget, Forgotten,
    History, HostBeat, HostPlace, Import, Imported, InStream, KeepSettled, Move, Moved, OperatorChange, OperatorStore,
    Page, Recorded, RecoveryStore, Rescued, Result, Row, Settle, Settled, Signal, Split, Stats, StreamOrder, Survey,
    Surveyed, Sweep, Verbs, Whole,
};
use crate::model::SourceTable;
use crate::model::time::stored;

pub use statements::statements;

/// How to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The most connections held at once, besides the one that listens: two for each lane, and some for the rest.
    pub max_connections: u32,
    /// Whether a transaction-pooling proxy stands between: nothing then outlives a transaction.
    pub pooled: bool,
    /// How long the server may take to answer one statement before the connection is given up.
    pub patience: Duration,
    /// Whether the server is to refuse whatever writes. A standby will do then. Without effect when `pooled`.
    pub read_only: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            max_connections: 36,
            pooled: false,
            read_only: false,
            patience: crate::store::open::Options::default().patience,
        }
    }
}

/// Dead letters in PostgreSQL 15 or later. Cheap to share, safe to use from many tasks.
#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    warm: warm::Warm,
    connect_options: PgConnectOptions,
    name: String,
    pooled: bool,
    patience: Duration,
}

/// A time as it is bound: in whole microseconds, as the database keeps it.
fn sql_time(time: Timestamp) -> jiff_sqlx::Timestamp {
    stored(time).to_sqlx()
}

#[async_trait]
impl Verbs for PostgresStore {
    async fn move_to_dead_letters(&self, request: &Move) -> Result<Option<Moved>> {
        self.move_row(request).await
    }

    async fn fetch_dead_letters_due(&self, now: Option<Timestamp>, max: u32) -> Result<Vec<Row>> {
        self.fetch_due(now, max).await
    }

    async fn recover_dead_letter(&self, id: Uuid, now: Option<Timestamp>) -> Result<bool> {
        self.recover(id, now).await
    }

    async fn mark_dead_letter_holding(&self, id: Uuid) -> Result<()> {
        self.hold(id).await
    }

    async fn mark_dead_letter_permanently_failed(&self, id: Uuid) -> Result<()> {
        self.give_up(id).await
    }

    async fn schedule_next_dead_letter_attempt(&self, id: Uuid, at: Timestamp) -> Result<()> {
        self.schedule(id, at).await
    }

    async fn reset_dead_letters_for_generation(&self, generation: &str) -> Result<u64> {
        self.reset(generation).await
    }
}

#[async_trait]
impl RecoveryStore for PostgresStore {
    async fn become_recovering_host(&self) -> Result<()> {
        Ok(())
    }

    async fn register_host(&self, beat: &HostBeat<'_>) -> Result<HostPlace> {
        self.beat(beat).await
    }

    async fn remove_host(&self, instance_id: Uuid) -> Result<()> {
        self.remove_registered(instance_id).await
    }

    async fn take_operator_retries(&self, now: Option<Timestamp>) -> Result<u64> {
        self.take_retries(now).await
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim> {
        self.claim_batch(request).await
    }

    async fn begin(&self, request: &Begin<'_>) -> Result<Begun> {
        self.begin_batch(request).await
    }

    async fn stream_order(&self, request: &StreamOrder<'_>) -> Result<Vec<InStream>> {
        self.order_in_streams(request).await
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Vec<Settled>> {
        self.settle_batch(request).await
    }

    async fn split(&self, request: &Split<'_>) -> Result<bool> {
        self.split_batch(request).await
    }

    async fn renew(&self, batch_id: Uuid, lease: Duration, now: Option<Timestamp>) -> Result<bool> {
        self.renew_batch(batch_id, lease, now).await
    }

    async fn release(&self, batch_id: Uuid) -> Result<()> {
        self.release_batch(batch_id).await
    }

    async fn look_over(&self, after: Cursor, up_to: Cursor) -> Result<()> {
        self.look_over_due(after, up_to).await
    }

    async fn rescue(&self, max_policy_errors: u32, now: Option<Timestamp>) -> Result<Rescued> {
        self.rescue_batches(max_policy_errors, now).await
    }

    async fn sweep(&self, request: &Sweep<'_>) -> Result<u64> {
        self.sweep_all(request).await
    }

    async fn clear_policy_deferrals(&self, request: &ClearDeferrals<'_>) -> Result<Cleared> {
        self.clear_deferrals(request).await
    }

    async fn forget_decisions(&self, request: &Forget<'_, Duration>) -> Result<Forgotten> {
        self.forget_recorded(request).await
    }

    async fn forget_settled(&self, request: &Forget<'_, KeepSettled>) -> Result<Forgotten> {
        self.forget_letters(request).await
    }

    async fn due(&self, generation: &str, now: Option<Timestamp>) -> Result<Due> {
        self.probe(generation, now).await
    }

    async fn signals(&self) -> Result<Receiver<Signal>> {
        self.subscribe().await
    }
}

#[async_trait]
impl OperatorStore for PostgresStore {
    async fn migrate(&self, adopt: bool) -> Result<Vec<String>> {
        self.migrate_schema(adopt).await
    }

    async fn check_schema(&self) -> Result<()> {
        self.require_migrations().await
    }

    async fn import(&self, request: &Import<'_>) -> Result<Imported> {
        self.import_rows(request).await
    }

    async fn list(&self, filter: &Filter, page: &Page) -> Result<Vec<Row>> {
        self.list_rows(filter, page).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64> {
        self.count_rows(filter).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Whole>> {
        self.show_row(id).await
    }

    async fn waits_for(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
        self.find_predecessors(ids).await
    }

    async fn survey(&self, request: &Survey<'_>) -> Result<Surveyed> {
        self.survey_rows(request).await
    }

    async fn history(&self, request: &History) -> Result<Recorded> {
        self.recorded_decisions(request).await
    }

    async fn source_row(&self, source_table: SourceTable, source_id: Uuid) -> Result<Option<String>> {
        self.look_at_source(source_table, source_id).await
    }

    async fn change(&self, request: &OperatorChange<'_>) -> Result<Vec<ChangeOutcome>> {
        self.change_rows(request).await
    }

    async fn stats(&self, now: Option<Timestamp>) -> Result<Stats> {
        self.count_all(now).await
    }

    async fn ping(&self) -> Result<()> {
        self.rows("answer", self.query("select 1")).await.map(drop)
    }
}
