//! Telling health, metrics and log which policy is in use.

use jiff::Timestamp;

use crate::policy::Policy;
use crate::telemetry::{Health, LoadedPolicy, Metrics};

/// Tells that this policy is in use from now on.
pub fn tell(policy: &Policy, metrics: &Metrics, health: &Health) {
    let now = Timestamp::now();
    let loaded = policy.about().iter().map(|member| LoadedPolicy {
        name: member.name.clone(),
        digest: member.digest.clone(),
        since: now,
        sha256: member.sha256.clone(),
        source: member.origin.to_string(),
    });
    health.policies(loaded.collect());
    let told = health.report().policies;
    metrics.gauges().policies(told.iter().map(|policy| (policy.name.as_str(), policy.digest.as_str(), policy.since)));
    tracing::info!(policy = policy.name(), digest = policy.digest(), "policy loaded");
}
