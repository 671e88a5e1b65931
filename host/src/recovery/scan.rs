//! One scan: claims are worked on until enough rows were decided or none is left.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::ask::Asker;
use super::batch::{Batch, Worked};
use super::options::RecoveryOptions;
use super::pace::Pace;
use super::{Deferrals, Generation, Rota, ScanCounts};
use crate::policy::{LivePolicy, Policy};
use crate::store::{ClaimRequest, Cursor, SharedStore, StoreError};
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
    /// Ends a scan between two batches, and gives back a batch that is not decided yet.
    pub shutdown: CancellationToken,
    /// Batches to give back as soon as the store answers again.
    pub abandoned: Arc<Mutex<Vec<Uuid>>>,
    /// How far the rows that another policy put off have been made due.
    pub deferrals: Arc<Mutex<Deferrals>>,
    /// How many rows a claim may take at present.
    pub pace: Arc<Pace>,
    /// Its place among the hosts that share the store.
    pub rota: Arc<Rota>,
}

/// Where a pass over the due rows stands; the lanes of a host share it.
///
/// A pass goes on after the last row that it looked at instead of starting at the front each time: rows whose
/// settling is not visible yet, or that wait for another host, are passed once and not for every claim.
///
/// Twice as many batches are under way as there are lanes: one half is decided while the other is recovered, so that
/// there is work to be done while a commit is waited for.
///
/// A lane that reads to the end while others have batches in hand is done: what it passed may be of their streams, and
/// the others go on behind their own rows. Only when nobody has any is the pass at its end. Nor is a batch decided ahead
/// where there are too few streams for so many batches. Where the policy keeps the order of streams, claims take whole
/// streams: row by row, they would be met before earlier ones of their streams and put off, each for a recorded decision.
#[derive(Debug)]
pub struct Pass {
    place: Mutex<Place>,
    lanes: Semaphore,
    most: u32,
}

#[derive(Debug, Default)]
struct Place {
    after: Option<Cursor>,
    ended: bool,
    /// Batches in hand.
    working: u32,
    /// Whether most rows of the last batch keep the order of their streams.
    in_order: bool,
}

impl Pass {
    pub(super) fn new(lanes: u16) -> Self {
        Self { place: Mutex::default(), lanes: Semaphore::new(usize::from(lanes)), most: u32::from(lanes) }
    }

    /// Waits for a lane to recover a batch in; it is free again when what is returned is dropped.
    pub(super) async fn lane(&self) -> Option<SemaphorePermit<'_>> {
        // Lanes are never closed.
        self.lanes.acquire().await.ok()
    }

    async fn ended(&self) -> bool {
        self.place.lock().await.ended
    }

    /// Lets the other lanes stop at their next claim.
    pub(super) async fn end(&self) {
        self.place.lock().await.ended = true;
    }

    /// Has the next claims take whole streams, or rows by themselves.
    pub(super) async fn keep_order(&self, in_order: bool) {
        self.place.lock().await.in_order = in_order;
    }

    async fn worked(&self) {
        let mut place = self.place.lock().await;
        place.working = place.working.saturating_sub(1);
    }
}

/// A batch, and whether it is the last one that its lane finds in this pass.
struct Claimed {
    batch: Batch,
    last: bool,
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
            let (Worked { counts: worked, past_the_scan }, last) = worked;
            counts += worked;
            if past_the_scan || last {
                break;
            }
        }
        Ok(Scanned { counts, full: false })
    }

    /// Works on the next claim of the pass; whether it is the lane's last. `None` when there is none.
    async fn claim_and_work(
        &self,
        pass: &Pass,
        most: u32,
        asker: &mut Asker,
    ) -> Result<Option<(Worked, bool)>, ScanError> {
        let claimed = self.claim(pass, most).await.inspect_err(|_| self.pace.failed(most));
        let Some(Claimed { batch, last }) = claimed? else { return Ok(None) };
        let rows = batch.rows();
        let worked = batch.work(self, pass, asker).await;
        pass.worked().await;
        match &worked {
            Ok(_) => self.pace.went_through(rows),
            // Also what the database refuses for good: a smaller batch tells which row it is.
            Err(ScanError::Store(_)) => self.pace.failed(rows),
            Err(ScanError::PolicyFails { .. }) => {}
        }
        worked.map(|worked| Some((worked, last)))
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

    /// Claims the next rows of the pass; `None` when it has ended.
    async fn claim(&self, pass: &Pass, max: u32) -> Result<Option<Claimed>, StoreError> {
        // Held across the claim: two lanes must not start from the same place.
        let mut place = pass.place.lock().await;
        if place.ended {
            return Ok(None);
        }
        let generation = self.generation.tag_or_unversioned();
        let request = ClaimRequest {
            batch_id: Uuid::now_v7(),
            owner: self.instance,
            generation: &generation,
            max,
            after: place.after,
            whole_streams: place.in_order,
            lease: self.options.lease,
            now: self.now,
        };
        let claim = match self.store.claim(&request).await {
            Ok(claim) => claim,
            Err(error) => {
                // It may have been committed with only the answer lost.
                self.abandon(request.batch_id).await;
                return Err(error);
            }
        };
        let at_the_end = claim.cursor.is_none();
        let is_crowded = claim.crowded && place.working >= pass.most;
        place.ended = at_the_end && place.working == 0;
        place.after = claim.cursor.or(place.after);
        place.working += 1;
        Ok(Some(Claimed { batch: Batch::new(request.batch_id, claim), last: at_the_end || is_crowded }))
    }
}
