//! The policy in use.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Policy;

/// The place that holds the policy in use. Clones share it; reading never blocks.
#[derive(Clone)]
pub struct LivePolicy(Arc<ArcSwap<Policy>>);

impl LivePolicy {
    /// A place that holds `policy`.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(policy)))
    }

    /// The policy in use now. A scan asks once and keeps the answer, so that it uses one policy from start to end.
    #[must_use]
    pub fn current(&self) -> Policy {
        self.0.load().as_ref().clone()
    }

    /// Puts another policy in use, for the scans that start from now on.
    pub fn replace(&self, policy: Policy) {
        self.0.store(Arc::new(policy));
    }
}
