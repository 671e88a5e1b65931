//! One scan: claims are worked on until enough rows were decided or none is left.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ask::Asker;
use super::batch::Worked;
use super::options::RecoveryOptions;
use super::pace::Pace;
use super::pass::Pass;
use super::{Deferrals, Generation, Rota, ScanCounts};
use crate::policy::{LivePolicy, Policy};
use crate::store::{Cursor, SharedStore, StoreError};
use crate::telemetry::{Health, Metrics};

/// Why a scan ended early. What it had committed until then stands.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The policy failed on every row and on the probe entries, so the fault is not the rows'. Nothing was counted.
    #[error("policy {name} ({digest}) fails on everything: {failure}")]
    PolicyFails {
        /// Its name.
        name: String,
        /// Its digest.
        digest: String,
        /// How it failed last.
        failure: String,
    },
}

/// Everything that a scan works with. Cheap to clone; clones share it all.
#[derive(Clone)]
pub struct Scanner {
    /// Where the dead letters are.
    pub store: SharedStore,
    /// Who is asked. A scan uses one policy from start to end.
    pub policy: LivePolicy,
    /// Who is asked when the policy fails, if anybody.
    pub fallback: Option<Policy>,
    /// How.
    pub options: Arc<RecoveryOptions>,
    /// For which build.
    pub generation: Generation,
    /// This process's id.
    pub instance: Uuid,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Where it is told how it goes.
    pub health: Health,
    /// Stands in for the clock.
    pub now: Option<Timestamp>,
    /// Ends a scan between two batches, and gives back a batch that is not being settled yet.
    pub shutdown: CancellationToken,
    /// Batches to give back as soon as the store answers again.
    pub abandoned: Arc<Mutex<Vec<Uuid>>>,
    /// How far the rows that another policy put off have been made due.
    pub deferrals: Arc<Mutex<Deferrals>>,
    /// How claims are made at present.
    pub pace: Arc<Pace>,
    /// Its place among the hosts that share the store.
    pub rota: Arc<Rota>,
}

/// How a scan ended.
#[derive(Debug, Clone, Copy)]
pub struct Scanned {
    /// What became of its rows.
    pub counts: ScanCounts,
    /// Whether it stopped because it had decided enough; there may be more.
    pub full: bool,
}

impl Scanner {
    /// Runs one scan along `pass`: decides up to `limit` rows, not counting skipped and blocked ones, and with `whole`
    /// what the last claim holds beyond that. A backlog that is mostly skipped or blocked would else be claimed in ever
    /// smaller pieces.
    pub(super) async fn scan(&self, pass: &Pass, limit: u64, whole: bool) -> Result<Scanned, ScanError> {
        let started = Instant::now();
        self.release_abandoned().await;
        if pass.ended().await {
            return Ok(Scanned { counts: ScanCounts::default(), full: false });
        }
        let result = self.claims(pass, limit, whole).await;
        self.metrics.scan(started.elapsed());
        if result.as_ref().is_ok_and(|scanned| scanned.counts.scanned > 0) {
            self.health.scanned(Timestamp::now());
        }
        result
    }

    async fn claims(&self, pass: &Pass, limit: u64, whole: bool) -> Result<Scanned, ScanError> {
        let mut asker = Asker::new(self.policy.current());
        let mut counts = ScanCounts::default();
        while !self.shutdown.is_cancelled() {
            let left = limit.saturating_sub(counts.decided());
            if left == 0 {
                return Ok(Scanned { counts, full: true });
            }
            let size = if whole { limit } else { left };
            let most = self.pace.at_most(u32::try_from(size).unwrap_or(u32::MAX));
            let Some(worked) = self.claim_and_work(pass, most, &mut asker).await? else { break };
            counts += worked.counts;
            if worked.is_last {
                break;
            }
        }
        Ok(Scanned { counts, full: false })
    }

    /// Works on the next claim of the pass; `None` when there is none.
    async fn claim_and_work(&self, pass: &Pass, most: u32, asker: &mut Asker) -> Result<Option<Worked>, ScanError> {
        let claimed = pass.claim(self, most).await.inspect_err(|_| self.pace.failed(most));
        let Some(batch) = claimed? else { return Ok(None) };
        let rows = batch.rows();
        let worked = batch.work(self, pass, asker).await;
        let behind = pass.worked().await;
        match &worked {
            Ok(_) => {
                self.pace.went_through(rows);
                self.look_over(behind).await;
            }
            // Also what the database refuses for good: a smaller batch tells which row it is.
            Err(ScanError::Store(_)) => self.pace.failed(rows),
            Err(ScanError::PolicyFails { .. }) => {}
        }
        worked.map(Some)
    }

    async fn look_over(&self, stretch: Option<(Cursor, Cursor)>) {
        if let Some((after, up_to)) = stretch
            && let Err(error) = self.store.look_over(after, up_to).await
        {
            tracing::debug!(%error, "what a pass left behind was not looked over");
        }
    }

    /// Gives a batch back whose work failed through no fault of its rows, so that nothing is counted on them.
    pub(super) async fn abandon(&self, batch_id: Uuid) {
        if let Err(error) = self.store.release(batch_id).await {
            tracing::debug!(%batch_id, %error, "a batch is given back later");
            self.abandoned.lock().await.push(batch_id);
        }
    }

    /// What cannot be given back yet, since somebody is at it perhaps, keeps nothing else from being scanned.
    async fn release_abandoned(&self) {
        let mut abandoned = self.abandoned.lock().await;
        while let Some(batch_id) = abandoned.last().copied() {
            if let Err(error) = self.store.release(batch_id).await {
                tracing::debug!(%batch_id, %error, "a batch is given back later");
                return;
            }
            abandoned.pop();
        }
    }
}
