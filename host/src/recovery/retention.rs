//! Deleting settled dead letters and recorded decisions when their time is over.

use std::time::{Duration, Instant};

use super::scan::Scanner;
use crate::store::{Forget, KeepSettled, StoreError};

/// The least time from one pass to the next.
const REST: Duration = Duration::from_secs(60 * 60);
/// A pass that took long is followed by a rest of so many times its length: what is kept is looked at in each.
const REST_FACTOR: u32 = 20;
/// From the start to the first pass: what is urgent goes first.
const FIRST_REST: Duration = Duration::from_secs(60);
/// Between two chunks, so that a pass takes little of what recovery needs.
const BREATH: Duration = Duration::from_millis(20);

/// What a pass goes over, and what it keeps.
#[derive(Debug, Clone, Copy)]
enum Over {
    Settled(KeepSettled),
    Decisions(Duration),
}

impl Scanner {
    /// Passes over the settled dead letters and the recorded decisions again and again until shutdown. Without a
    /// retention, it deletes nothing.
    pub(super) async fn keep_forgetting(&self) {
        let mut rest = FIRST_REST;
        while !self.rests(rest).await {
            let began = Instant::now();
            match self.forget(BREATH).await {
                Ok((0, 0)) => {}
                Ok((settled, decisions)) => {
                    tracing::info!(settled, decisions, "dead letters and decisions were deleted after their retention");
                }
                Err(error) => tracing::warn!(%error, "what is past its retention is kept until the next pass"),
            }
            rest = REST.max(began.elapsed() * REST_FACTOR);
        }
    }

    /// One pass over each, as the options say: settled dead letters and recorded decisions that were deleted.
    async fn forget(&self, pause: Duration) -> Result<(u64, u64), StoreError> {
        let (mut settled, mut decisions) = (0, 0);
        let keep = self.options.settled_retention;
        if keep != KeepSettled::default() {
            settled = self.forget_settled(keep, pause).await?;
        }
        if let Some(keep) = self.options.decision_retention {
            decisions = self.forget_decisions(keep, pause).await?;
        }
        Ok((settled, decisions))
    }

    /// One pass over the dead letters, with a pause after each chunk; how many were deleted.
    ///
    /// # Errors
    ///
    /// The store did not do its part; what chunks before deleted stays deleted.
    pub async fn forget_settled(&self, keep: KeepSettled, pause: Duration) -> Result<u64, StoreError> {
        self.forget_over(Over::Settled(keep), pause).await
    }

    /// One pass over the recorded decisions, with a pause after each chunk; how many were deleted.
    ///
    /// # Errors
    ///
    /// The store did not do its part; what chunks before deleted stays deleted.
    pub async fn forget_decisions(&self, keep: Duration, pause: Duration) -> Result<u64, StoreError> {
        self.forget_over(Over::Decisions(keep), pause).await
    }

    async fn forget_over(&self, over: Over, pause: Duration) -> Result<u64, StoreError> {
        let (mut rows, mut after) = (0, None::<String>);
        loop {
            let (after_last, now) = (after.as_deref(), self.now);
            let forgotten = match over {
                Over::Settled(keep) => self.store.forget_settled(&Forget { keep, after: after_last, now }).await?,
                Over::Decisions(keep) => self.store.forget_decisions(&Forget { keep, after: after_last, now }).await?,
            };
            rows += forgotten.rows;
            after = forgotten.next;
            if after.is_none() || self.rests(pause).await {
                return Ok(rows);
            }
        }
    }

    /// Waits; true when shutdown ended it.
    async fn rests(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.shutdown.cancelled()).await.is_ok()
    }
}
