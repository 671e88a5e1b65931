//! What stands now: rows, the oldest due row, the loaded policy.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::PolicyNames;
use crate::model::RecoveryStatus;

type StatusLabel = [(&'static str, &'static str); 1];
type PolicyLabels = [(&'static str, String); 2];
type DigestLabel = [(&'static str, String); 1];
type SecondsGauge = Gauge<f64, AtomicU64>;

/// Gauges that are read from the store and from the policy slot.
#[derive(Debug, Default)]
pub struct Gauges {
    rows: Family<StatusLabel, Gauge>,
    oldest_due_age: SecondsGauge,
    policies: Family<PolicyLabels, SecondsGauge>,
    rejected: Family<DigestLabel, SecondsGauge>,
    names: PolicyNames,
}

impl Gauges {
    /// Makes them and enters them in the registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        registry.register("reprieve_dead_letters", "Dead letters by status", gauges.rows.clone());
        registry.register_with_unit(
            "reprieve_oldest_due_age",
            "How long the oldest due dead letter has been due; 0 when none is",
            Unit::Seconds,
            gauges.oldest_due_age.clone(),
        );
        registry.register_with_unit(
            "reprieve_policy_loaded_timestamp",
            "When the policy with this digest was loaded, in Unix time",
            Unit::Seconds,
            gauges.policies.clone(),
        );
        registry.register_with_unit(
            "reprieve_policy_rejected_timestamp",
            "When the file with this digest was rejected, in Unix time; absent while what is configured is in use",
            Unit::Seconds,
            gauges.rejected.clone(),
        );
        gauges
    }

    /// Sets the number of dead letters with a status.
    pub fn rows(&self, status: RecoveryStatus, count: u64) {
        let labels = [("status", status.name())];
        self.rows.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the age of the oldest due row by when it fell due; `None` when no row is due.
    pub fn oldest_due(&self, fell_due_at: Option<Timestamp>, now: Timestamp) {
        let age = fell_due_at.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
        self.oldest_due_age.set(age);
    }

    /// Tells the policies that are loaded now, each by name, digest and load time, in place of those told before.
    pub fn policies<'a>(&self, loaded: impl IntoIterator<Item = (&'a str, &'a str, Timestamp)>) {
        self.policies.clear();
        for (name, digest, since) in loaded {
            let labels = [("policy_name", self.names.label(name)), ("digest", digest.to_owned())];
            self.policies.get_or_create(&labels).set(unix_seconds(since));
        }
    }

    /// Tells the file that is rejected now, by its digest when it could be read; `None` when what is configured is in
    /// use.
    pub fn rejected(&self, rejected: Option<(Option<&str>, Timestamp)>) {
        self.rejected.clear();
        if let Some((digest, at)) = rejected {
            let labels = [("digest", digest.unwrap_or("").to_owned())];
            self.rejected.get_or_create(&labels).set(unix_seconds(at));
        }
    }
}

fn unix_seconds(at: Timestamp) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
    let seconds = at.as_millisecond() as f64 / 1000.0;
    seconds
}
