//! Rows that the former policy put off meet the new one at once.

use jiff::Timestamp;

use super::scan::Scanner;
use crate::policy::Policy;
use crate::store::{ClearDeferrals, Cleared};

/// How far the pass over the deferred rows has come for the policy in use. There is one pass for each policy that is put
/// in use, also for one that was in use before: another may have decided in between.
#[derive(Debug, Default)]
pub struct Deferrals {
    /// The policy, by its digest and the time it was loaded.
    policy: Option<(String, Timestamp)>,
    /// Whether it came while this host was running.
    new: bool,
    after: Option<String>,
    left: bool,
    /// Whether the store failed at it in this cycle.
    stalled: bool,
}

impl Deferrals {
    /// Starts over when this is another policy than the last time.
    fn meet(&mut self, policy: &Policy) {
        let loaded = (policy.digest().to_owned(), policy.loaded_at());
        if self.policy.as_ref() != Some(&loaded) {
            *self = Self { new: self.policy.is_some(), policy: Some(loaded), after: None, left: true, stalled: false };
        }
    }

    /// Whether rows are left that can be looked at now.
    pub(super) const fn unfinished(&self) -> bool {
        self.left && !self.stalled
    }
}

impl Scanner {
    /// Goes on with the pass until it has made rows due, for the scan to take, or is at its end. A fault of the store is
    /// told and leaves the rest to the next cycle: it must not keep those from being scanned that are due.
    pub(super) async fn clear_deferrals(&self) {
        let policy = self.policy.current();
        let mut deferrals = self.deferrals.lock().await;
        deferrals.meet(&policy);
        deferrals.stalled = false;
        while deferrals.left && !self.shutdown.is_cancelled() {
            let request = ClearDeferrals {
                digest: policy.digest(),
                unknown: deferrals.new,
                after: deferrals.after.as_deref(),
                now: self.now,
            };
            match self.store.clear_policy_deferrals(&request).await {
                Ok(Cleared { rows, next }) => {
                    deferrals.left = next.is_some();
                    deferrals.after = next;
                    if rows > 0 {
                        tracing::info!(rows, digest = policy.digest(), "rows that another policy put off are due");
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "rows that another policy put off wait for the next cycle");
                    deferrals.stalled = true;
                    return;
                }
            }
        }
    }
}
