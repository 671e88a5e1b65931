//! Deleting recorded decisions when their time is over.

use std::time::{Duration, Instant};

use super::scan::Scanner;
use crate::store::{Forget, StoreError};

/// The least time from one pass to the next.
const REST: Duration = Duration::from_secs(60 * 60);
/// A pass that took long is followed by a rest of so many times its length: what is kept is looked at in each.
const REST_FACTOR: u32 = 20;
/// From the start to the first pass: what is urgent goes first.
const FIRST_REST: Duration = Duration::from_secs(60);
/// Between two chunks, so that a pass takes little of what recovery needs.
const BREATH: Duration = Duration::from_millis(20);

impl Scanner {
    /// Passes over the recorded decisions again and again until shutdown. Without a retention, it deletes nothing.
    pub(super) async fn keep_forgetting(&self) {
        let Some(keep) = self.options.decision_retention else { return };
        let mut rest = FIRST_REST;
        while !self.rests(rest).await {
            let began = Instant::now();
            match self.forget_decisions(keep, BREATH).await {
                Ok(0) => {}
                Ok(decisions) => tracing::info!(decisions, "recorded decisions were deleted after their retention"),
                Err(error) => tracing::warn!(%error, "recorded decisions are kept until the next pass"),
            }
            rest = REST.max(began.elapsed() * REST_FACTOR);
        }
    }

    /// One pass over the recorded decisions, with a pause after each chunk; how many were deleted.
    ///
    /// # Errors
    ///
    /// The store did not do its part; chunks before stay deleted.
    pub async fn forget_decisions(&self, keep: Duration, pause: Duration) -> Result<u64, StoreError> {
        let (mut decisions, mut after) = (0, None::<String>);
        loop {
            let request = Forget { keep, after: after.as_deref(), now: self.now };
            let forgotten = self.store.forget_decisions(&request).await?;
            decisions += forgotten.decisions;
            after = forgotten.next;
            if after.is_none() || self.rests(pause).await {
                return Ok(decisions);
            }
        }
    }

    /// Waits; true when shutdown ended it.
    async fn rests(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.shutdown.cancelled()).await.is_ok()
    }
}
