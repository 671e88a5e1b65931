//! The embedded store: one SQLite file in WAL mode.
//!
//! Every verb is one `begin immediate` transaction of the one connection that writes; a few other connections read.
//! Any number of processes may read, import and use the operators' verbs; one at a time recovers, which a lock file
//! beside the database sees to.
//!
//! Ids are lower-case hyphenated texts, times RFC 3339 in UTC with six decimals, JSON and lists are JSON texts. Rows
//! that applications wrote in other forms are read where they can be; those that cannot be read are reported one by
//! one and never keep the others from being worked on.

mod batch;
mod begin;
mod body;
mod catalogue;
mod claim;
mod connect;
mod decisions;
mod due;
mod fault;
mod free_rows;
mod guard;
mod host_lock;
mod import;
mod inherit;
mod instances;
mod line;
mod listing;
mod look;
mod migrate;
mod moving;
mod moving_leased;
mod nudge;
mod operator;
mod perspective;
mod perspective_claim;
mod perspective_orphans;
mod rescue;
mod retention;
mod rows;
mod settle;
mod signals;
mod source;
mod stats;
mod stored_value;
mod streams;
mod survey;
mod sweep;
mod values;
mod verbs;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;

use self::fault::Fault;
use self::signals::Signals;
use super::{
    Begin, Begun, ChangeOutcome, Claim, ClaimRequest, ClearDeferrals, Cleared, Due, Filter, Forget, Forgotten, History,
    HostBeat, HostPlace, Import, Imported, InStream, KeepSettled, Move, Moved, OperatorChange, OperatorStore, Page,
    Recorded, RecoveryStore, Rescued, Result, Row, Settle, Settled, Signal, Split, Stats, StreamOrder, Survey,
    Surveyed, Sweep, Verbs, Whole,
};
use crate::model::{RecoveryStatus, SourceTable};

/// A store in a file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    fault: Fault,
    connect: SqliteConnectOptions,
    writer: Arc<tokio::sync::Mutex<Option<SqliteConnection>>>,
    readers: SqlitePool,
    signals: Signals,
    host_lock: Mutex<Option<File>>,
    /// Whether the batches in the file are those of hosts that died.
    orphans: AtomicBool,
}

impl SqliteStore {
    fn assemble(
        path: PathBuf,
        fault: Fault,
        connect: SqliteConnectOptions,
        writer: SqliteConnection,
        readers: SqlitePool,
    ) -> Self {
        Self {
            path,
            fault,
            connect,
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            readers,
            signals: Signals::default(),
            host_lock: Mutex::new(None),
            orphans: AtomicBool::new(false),
        }
    }
}

/// Every constant statement by its name, for a test that prepares them on a migrated database.
#[must_use]
pub fn statements() -> &'static [(&'static str, &'static str)] {
    static ALL: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
        [
            batch::STATEMENTS,
            begin::STATEMENTS,
            claim::STATEMENTS,
            decisions::STATEMENTS,
            due::STATEMENTS,
            free_rows::STATEMENTS,
            import::STATEMENTS,
            inherit::STATEMENTS,
            instances::STATEMENTS,
            line::STATEMENTS,
            listing::STATEMENTS,
            migrate::STATEMENTS,
            moving::STATEMENTS,
            nudge::STATEMENTS,
            operator::STATEMENTS,
            perspective::STATEMENTS,
            perspective_claim::STATEMENTS,
            perspective_orphans::STATEMENTS,
            rescue::STATEMENTS,
            retention::STATEMENTS,
            settle::STATEMENTS,
            signals::STATEMENTS,
            source::STATEMENTS,
            stats::STATEMENTS,
            streams::STATEMENTS,
            survey::STATEMENTS,
            sweep::STATEMENTS,
            verbs::STATEMENTS,
        ]
        .concat()
    });
    &ALL
}

#[async_trait]
impl Verbs for SqliteStore {
    async fn move_to_dead_letters(&self, request: &Move) -> Result<Option<Moved>> {
        moving::move_to_dead_letters(self, request).await
    }

    async fn fetch_dead_letters_due(&self, now: Option<Timestamp>, max: u32) -> Result<Vec<Row>> {
        verbs::fetch_due(self, now, max).await
    }

    async fn recover_dead_letter(&self, id: Uuid, now: Option<Timestamp>) -> Result<bool> {
        verbs::recover(self, id, now).await
    }

    async fn mark_dead_letter_holding(&self, id: Uuid) -> Result<()> {
        verbs::mark(self, id, RecoveryStatus::HoldForReview).await
    }

    async fn mark_dead_letter_permanently_failed(&self, id: Uuid) -> Result<()> {
        verbs::mark(self, id, RecoveryStatus::PermanentlyFailed).await
    }

    async fn schedule_next_dead_letter_attempt(&self, id: Uuid, at: Timestamp) -> Result<()> {
        verbs::schedule(self, id, at).await
    }

    async fn reset_dead_letters_for_generation(&self, generation: &str) -> Result<u64> {
        sweep::sweep(self, &Sweep { generation, stagger: Duration::ZERO, now: None }).await
    }
}

#[async_trait]
impl RecoveryStore for SqliteStore {
    async fn become_recovering_host(&self) -> Result<()> {
        host_lock::become_recovering_host(self)
    }

    async fn register_host(&self, beat: &HostBeat<'_>) -> Result<HostPlace> {
        instances::beat(self, beat).await
    }

    async fn remove_host(&self, instance_id: Uuid) -> Result<()> {
        instances::remove(self, instance_id).await
    }

    async fn take_operator_retries(&self, now: Option<Timestamp>) -> Result<u64> {
        nudge::take_operator_retries(self, now).await
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim> {
        claim::claim(self, request).await
    }

    async fn begin(&self, request: &Begin<'_>) -> Result<Begun> {
        begin::begin(self, request).await
    }

    async fn stream_order(&self, request: &StreamOrder<'_>) -> Result<Vec<InStream>> {
        streams::stream_order(self, request).await
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Vec<Settled>> {
        settle::settle(self, request).await
    }

    async fn split(&self, request: &Split<'_>) -> Result<bool> {
        batch::split(self, request).await
    }

    async fn renew(&self, batch_id: Uuid, lease: Duration, now: Option<Timestamp>) -> Result<bool> {
        batch::renew(self, batch_id, lease, now).await
    }

    async fn release(&self, batch_id: Uuid) -> Result<()> {
        batch::release(self, batch_id).await
    }

    async fn rescue(&self, max_policy_errors: u32, now: Option<Timestamp>) -> Result<Rescued> {
        rescue::rescue(self, max_policy_errors, now).await
    }

    async fn sweep(&self, request: &Sweep<'_>) -> Result<u64> {
        sweep::sweep(self, request).await
    }

    async fn clear_policy_deferrals(&self, request: &ClearDeferrals<'_>) -> Result<Cleared> {
        nudge::clear_policy_deferrals(self, request).await
    }

    async fn forget_decisions(&self, request: &Forget<'_, Duration>) -> Result<Forgotten> {
        retention::forget_decisions(self, request).await
    }

    async fn forget_settled(&self, request: &Forget<'_, KeepSettled>) -> Result<Forgotten> {
        retention::forget_settled(self, request).await
    }

    async fn due(&self, generation: &str, now: Option<Timestamp>) -> Result<Due> {
        due::due(self, generation, now).await
    }

    async fn signals(&self) -> Result<Receiver<Signal>> {
        Ok(self.signals.subscribe(&self.writer).await)
    }
}

#[async_trait]
impl OperatorStore for SqliteStore {
    async fn migrate(&self, _adopt: bool) -> Result<Vec<String>> {
        migrate::migrate(self).await
    }

    async fn check_schema(&self) -> Result<()> {
        migrate::check_schema(self).await
    }

    async fn import(&self, request: &Import<'_>) -> Result<Imported> {
        import::import(self, request).await
    }

    async fn list(&self, filter: &Filter, page: &Page) -> Result<Vec<Row>> {
        listing::list(self, filter, page).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64> {
        listing::count(self, filter).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Whole>> {
        listing::show(self, id).await
    }

    async fn waits_for(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
        streams::waits_for(self, ids).await
    }

    async fn survey(&self, request: &Survey<'_>) -> Result<Surveyed> {
        survey::survey(self, request).await
    }

    async fn history(&self, request: &History) -> Result<Recorded> {
        survey::history(self, request).await
    }

    async fn source_row(&self, source_table: SourceTable, source_id: Uuid) -> Result<Option<String>> {
        look::source_row(self, source_table, source_id).await
    }

    async fn change(&self, request: &OperatorChange<'_>) -> Result<Vec<ChangeOutcome>> {
        operator::change(self, request).await
    }

    async fn stats(&self, now: Option<Timestamp>) -> Result<Stats> {
        stats::stats(self, now).await
    }

    async fn ping(&self) -> Result<()> {
        listing::ping(self).await
    }
}
