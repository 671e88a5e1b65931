//! The policy in use.

use std::sync::Arc;

use tokio::sync::watch;

use super::Policy;

/// The place that holds the policy in use. Clones share it; reading does not wait for anything that takes time.
#[derive(Clone)]
pub struct LivePolicy(Arc<watch::Sender<Policy>>);

impl LivePolicy {
    /// A place that holds `policy`.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(watch::Sender::new(policy)))
    }

    /// The policy in use now. A scan asks once and keeps the answer, so that it uses one policy from start to end.
    #[must_use]
    pub fn current(&self) -> Policy {
        self.0.borrow().clone()
    }

    /// Puts another policy in use, for the scans that start from now on.
    pub fn replace(&self, policy: Policy) {
        self.0.send_replace(policy);
    }

    /// Tells of the replacements from now on.
    #[must_use]
    pub fn changes(&self) -> PolicyChanges {
        PolicyChanges(self.0.subscribe())
    }
}

/// Tells when the policy in use is replaced.
#[derive(Clone)]
pub struct PolicyChanges(watch::Receiver<Policy>);

impl PolicyChanges {
    /// Resolves once for all replacements since it was asked last; never when the place is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
