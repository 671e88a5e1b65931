//! Scans, in lanes that overlap, until nothing is due.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::ScanCounts;
use super::pass::Pass;
use super::scan::{ScanError, Scanned, Scanner};
use crate::store::StoreError;

/// How the preparations went that a scan can do without.
type Prepared = Result<(), StoreError>;

impl Scanner {
    /// What every cycle starts with: rows that another policy put off, the batches of hosts that died, and operators'
    /// wishes written by SQL.
    ///
    /// What the database refuses of it is for after the pass: it must not keep those from being scanned that are due.
    async fn prepare(&self) -> Result<Prepared, StoreError> {
        self.clear_deferrals().await;
        let rescued = self.rescue().await;
        match rescued.and(self.take_retries().await) {
            Err(error) if error.is_transient() => Err(error),
            prepared => Ok(prepared),
        }
    }

    async fn take_retries(&self) -> Prepared {
        let retries = self.store.take_operator_retries(self.now).await?;
        if retries > 0 {
            tracing::info!(retries, "operators asked for retries");
        }
        Ok(())
    }

    async fn rescue(&self) -> Prepared {
        let rescued = self.store.rescue(self.options.max_policy_errors, self.now).await?;
        for reason in &rescued.held {
            self.metrics.held(self.policy.current().name(), *reason);
        }
        if rescued.batches > 0 {
            tracing::warn!(
                batches = rescued.batches,
                attempts = rescued.attempts,
                policy_errors = rescued.policy_errors,
                held = rescued.held.len(),
                "batches whose lease had ended were dissolved"
            );
        }
        Ok(())
    }

    /// One cycle: decides up to `scan_batch_size` rows, not counting skipped and blocked ones, or all that is due. A row
    /// that was out of the way of others during a scan has made them due: they are scanned next.
    pub async fn cycle(&self) -> Result<Scanned, ScanError> {
        let mut counts = ScanCounts::default();
        loop {
            let prepared = self.prepare().await?;
            let left = self.batch_size().saturating_sub(counts.decided());
            let scanned = self.scan(&Pass::new(1), left, false).await?;
            counts += scanned.counts;
            prepared?;
            if scanned.full || scanned.counts.scanned == 0 || self.shutdown.is_cancelled() || !self.is_due().await? {
                return Ok(Scanned { counts, full: scanned.full });
            }
        }
    }

    fn batch_size(&self) -> u64 {
        u64::from(self.options.scan_batch_size)
    }

    async fn is_due(&self) -> Result<bool, ScanError> {
        let generation = self.generation.tag_or_unversioned();
        Ok(self.store.due(&generation, self.now).await?.due_now)
    }

    /// Cycles until nothing is due for this host, in as many lanes as the options say.
    pub async fn until_idle(&self) -> Result<ScanCounts, ScanError> {
        let mut counts = ScanCounts::default();
        loop {
            let prepared = self.prepare().await?;
            counts += self.pass().await?;
            prepared?;
            if self.shutdown.is_cancelled() {
                return Ok(counts);
            }
            if self.deferrals.lock().await.unfinished() {
                continue;
            }
            if !self.is_due().await? {
                return Ok(counts);
            }
        }
    }

    /// One pass over what is due, in lanes. When a lane fails, the others finish what they have in hand.
    async fn pass(&self) -> Result<ScanCounts, ScanError> {
        let pass = Arc::new(Pass::new(self.options.lanes));
        let mut lanes = JoinSet::new();
        for _ in 0..2 * self.options.lanes {
            let (scanner, pass) = (self.clone(), Arc::clone(&pass));
            lanes.spawn(async move { scanner.lane(&pass).await });
        }
        let mut counts = Ok(ScanCounts::default());
        while let Some(lane) = lanes.join_next().await {
            let lane = lane.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => Ok(ScanCounts::default()),
            });
            counts = match (counts, lane) {
                (Ok(sum), Ok(more)) => Ok(sum + more),
                (Err(first), _) => Err(first),
                (Ok(_), Err(error)) => {
                    pass.end().await;
                    Err(error)
                }
            };
        }
        counts
    }

    async fn lane(&self, pass: &Pass) -> Result<ScanCounts, ScanError> {
        let mut counts = ScanCounts::default();
        loop {
            let scanned = self.scan(pass, self.batch_size(), true).await?;
            counts += scanned.counts;
            if !scanned.full {
                return Ok(counts);
            }
        }
    }
}
