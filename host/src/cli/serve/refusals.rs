//! What of the configuration and of the policies' files is refused now, as health, metrics and log tell it.

use jiff::Timestamp;

use crate::policy::Refusal;
use crate::telemetry::{Health, Metrics, Rejected};

/// The refusals that stand: of the configuration, and of the chain that it names. Each ends by itself.
pub struct Refusals {
    configuration: Option<Rejected>,
    chain: Option<Rejected>,
    metrics: Metrics,
    health: Health,
}

impl Refusals {
    /// None yet.
    pub const fn new(metrics: Metrics, health: Health) -> Self {
        Self { configuration: None, chain: None, metrics, health }
    }

    /// The configuration cannot be taken over. One that is refused for what it was refused for before is not told again.
    pub fn configuration_refused(&mut self, refusal: Refusal) {
        if self.configuration.as_ref().is_none_or(|standing| standing.reason != refusal.reason) {
            self.configuration = Some(self.told(refusal));
            self.show();
        }
    }

    /// The configuration could be read.
    pub fn configuration_accepted(&mut self) {
        if self.configuration.take().is_some() {
            tracing::info!("the configuration can be read again");
            self.show();
        }
    }

    /// Tells of the configuration again, if it is still refused.
    pub fn forget_configuration(&mut self) {
        self.configuration = None;
    }

    /// Whether anything is refused now.
    pub const fn stand(&self) -> bool {
        self.configuration.is_some() || self.chain.is_some()
    }

    /// What the chain's files hold cannot be used.
    pub fn chain_refused(&mut self, refusal: Refusal) {
        self.chain = Some(self.told(refusal));
        self.show();
    }

    /// What the chain's files hold is in use. Whether it was refused until now.
    pub fn chain_accepted(&mut self) -> bool {
        let stood = self.chain.take().is_some();
        self.show();
        stood
    }

    fn told(&self, Refusal { digest, reason, .. }: Refusal) -> Rejected {
        self.metrics.reload("rejected");
        Rejected { digest, at: Timestamp::now(), reason }
    }

    /// The last one that stands is shown; it is told in the log once health and metrics show it.
    fn show(&self) {
        let shown = [&self.configuration, &self.chain].into_iter().flatten().max_by_key(|rejected| rejected.at);
        let before = self.health.report().rejected;
        self.metrics.gauges().rejected(shown.map(|rejected| (rejected.digest.as_deref(), rejected.at)));
        self.health.rejected(shown.cloned());
        if let Some(Rejected { digest, reason, .. }) = shown.filter(|shown| before.as_ref() != Some(shown)) {
            tracing::error!(digest, reason, "policy rejected; the last good one serves on");
        }
    }
}
