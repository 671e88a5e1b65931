//! The loop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use tokio::time::Instant;

use super::scan::{ScanError, Scanner};
use super::wait::Signals;
use crate::policy::PolicyChanges;
use crate::store::{StoreError, Sweep};
use crate::telemetry::ListenerState;

/// The first wait after a failed cycle.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait between two tries but for jitter, which at most doubles it: so late is a recovered database noticed
/// where no subscription to signals tells of it.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Recovers dead letters until it is told to stop. Nothing that happens inside a scan ends it.
pub struct Worker {
    scanner: Scanner,
}

impl Worker {
    /// A worker with everything that its scans need.
    #[must_use]
    pub const fn new(scanner: Scanner) -> Self {
        Self { scanner }
    }

    /// Subscribes, sweeps for the current generation, scans, waits, scans again, and deletes recorded decisions after
    /// their retention meanwhile. Returns when the scanner's shutdown is cancelled and the batch in hand is finished or
    /// given back.
    pub async fn run(&self) {
        tokio::join!(self.recover(), self.scanner.keep_forgetting());
    }

    async fn recover(&self) {
        let shutdown = self.scanner.shutdown.clone();
        // Subscribed before the first scan, so that a row that comes in between is not missed.
        let mut signals = Signals::default();
        self.subscribe(&mut signals).await;
        let mut swept = None;
        let mut policies = self.scanner.policy.changes();
        let mut backoff = backoff();
        while !shutdown.is_cancelled() {
            let backstop = Instant::now() + self.scanner.options.scan_interval;
            let turn = self.turn(&mut signals, &mut policies, &mut swept, backstop).await;
            if self.told(turn) {
                backoff = self::backoff();
                continue;
            }
            let wait = backoff.next().unwrap_or(MAX_BACKOFF);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = policies.changed() => backoff = self::backoff(),
                () = signals.restored(&self.scanner) => backoff = self::backoff(),
                () = shutdown.cancelled() => {}
            }
        }
    }

    /// One turn of the loop: the sweep when the generation is new, cycles until nothing is due, then the wait.
    async fn turn(
        &self,
        signals: &mut Signals,
        policies: &mut PolicyChanges,
        swept: &mut Option<Arc<str>>,
        backstop: Instant,
    ) -> Result<(), ScanError> {
        let scanner = &self.scanner;
        self.subscribe(signals).await;
        // The scan to come covers what they tell of; that the subscription was lost is told even where it fails.
        signals.coalesce(scanner);
        self.sweep_once(swept).await;
        self.scan_until_idle(swept).await?;
        scanner.health.scanned(Timestamp::now());
        tokio::select! {
            woken = scanner.until_woken(signals, backstop) => woken?,
            () = policies.changed() => {}
            () = scanner.shutdown.cancelled() => {}
            () = self.generation_changed() => {}
        }
        Ok(())
    }

    /// Scans until nothing is due. A long backlog does not keep a new build waiting: its sweep is made meanwhile.
    async fn scan_until_idle(&self, swept: &mut Option<Arc<str>>) -> Result<(), ScanError> {
        let mut scans = pin!(self.scanner.until_idle());
        loop {
            tokio::select! {
                scanned = &mut scans => return scanned.map(drop),
                () = self.generation_changed() => {}
            }
            // Both go on: either may hold what the other one waits for.
            let mut sweep = pin!(self.sweep_once(swept));
            tokio::select! {
                () = &mut sweep => {}
                scanned = &mut scans => {
                    sweep.await;
                    return scanned.map(drop);
                }
            }
        }
    }

    /// Tells health and log how a turn went; whether it went well.
    fn told(&self, turn: Result<(), ScanError>) -> bool {
        let health = &self.scanner.health;
        match turn {
            Ok(()) => return true,
            Err(ScanError::Store(error)) => {
                health.store_failed(Timestamp::now(), &error.to_string());
                tracing::error!(%error, "a scan failed; backing off");
            }
            // It was replaced meanwhile: what it failed on is the next one's.
            Err(ScanError::PolicyFails { digest, .. }) if digest != self.scanner.policy.current().digest() => {
                return true;
            }
            Err(error @ ScanError::PolicyFails { .. }) => {
                health.policy_failed(Timestamp::now(), &error.to_string());
                tracing::error!(%error, "the policy cannot be used; backing off");
            }
        }
        false
    }

    /// Subscribes unless a subscription stands. Without one the worker polls, and tries again in its next turn.
    async fn subscribe(&self, signals: &mut Signals) {
        if !self.scanner.options.signals || signals.subscribed() {
            return;
        }
        match self.scanner.store.signals().await {
            Ok(receiver) => {
                self.scanner.health.listener(ListenerState::Listening);
                signals.receive_from(receiver);
            }
            Err(error) => {
                self.scanner.health.listener(ListenerState::Lost);
                tracing::warn!(%error, "no subscription to signals; polling");
            }
        }
    }

    /// Sweeps for the current generation unless `swept` says that this was done. A sweep that fails is counted and
    /// tried again in the next turn; scanning goes on all the same.
    async fn sweep_once(&self, swept: &mut Option<Arc<str>>) {
        if let Err(error) = self.scanner.generation.refresh().await {
            tracing::warn!(%error, "the generation stays as it is");
        }
        let tag = self.scanner.generation.tag();
        if !self.scanner.options.enable_generation_replay || tag == *swept {
            return;
        }
        match self.scanner.sweep().await {
            Ok(_) => *swept = tag,
            Err(error) => {
                self.scanner.metrics.sweep_failed();
                tracing::error!(%error, "the generation sweep failed; scanning all the same");
            }
        }
    }

    /// Resolves when the generation file holds another tag.
    async fn generation_changed(&self) {
        loop {
            tokio::time::sleep(self.scanner.options.probe_interval).await;
            match self.scanner.generation.refresh().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the generation stays as it is"),
            }
        }
    }
}

impl Scanner {
    /// Gives the rows their one attempt on the current generation; how many there were, `None` without a generation.
    pub async fn sweep(&self) -> Result<Option<u64>, StoreError> {
        let Some(generation) = self.generation.tag() else { return Ok(None) };
        let stagger = self.options.generation_replay_stagger;
        let rows = self.store.sweep(&Sweep { generation: &generation, stagger, now: self.now }).await?;
        self.metrics.generation_replay_scheduled(&generation, rows);
        tracing::info!(%generation, rows, "swept for the generation");
        Ok(Some(rows))
    }
}

fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(MIN_BACKOFF)
        .with_max_delay(MAX_BACKOFF)
        .without_max_times()
        .build()
}
