//! How long things take, and what goes wrong on the way.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

type OneLabel = [(&'static str, String); 1];

/// Histograms in seconds, and counters of faults.
#[derive(Debug)]
pub(super) struct Timings {
    pub scan: Histogram,
    pub policy_call: Histogram,
    pub settle: Histogram,
    pub policy_errors: Family<OneLabel, Counter>,
    pub reloads: Family<OneLabel, Counter>,
    pub lost_leases: Counter,
    pub listener_reconnects: Counter,
    pub failed_sweeps: Counter,
    pub failed_moves: Family<OneLabel, Counter>,
}

impl Timings {
    /// Makes them and enters them in the registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        // From 1 ms to half a minute, and for policy calls from 2 µs to two seconds.
        let coarse = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let timings = Self {
            scan: coarse(),
            policy_call: Histogram::new(exponential_buckets(0.000_002, 2.0, 20)),
            settle: coarse(),
            policy_errors: Family::default(),
            reloads: Family::default(),
            lost_leases: Counter::default(),
            listener_reconnects: Counter::default(),
            failed_sweeps: Counter::default(),
            failed_moves: Family::default(),
        };
        let mut time = |name, help, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        time("reprieve_scan_duration", "Time of one scan", &timings.scan);
        time(
            "reprieve_policy_call_duration",
            "Time of one entry's policy calls, averaged over a batch",
            &timings.policy_call,
        );
        time("reprieve_settle_duration", "Time of settling one batch", &timings.settle);
        registry.register("reprieve_policy_errors", "Failed policy calls", timings.policy_errors.clone());
        registry.register("reprieve_policy_reloads", "Loads of a policy file", timings.reloads.clone());
        registry.register("reprieve_lost_leases", "Batches lost to another host", timings.lost_leases.clone());
        let reconnects = timings.listener_reconnects.clone();
        registry.register("reprieve_listener_reconnects", "Subscriptions that were re-established", reconnects);
        registry.register("reprieve_failed_sweeps", "Generation sweeps that failed", timings.failed_sweeps.clone());
        registry.register("reprieve_failed_moves", "Messages not dead-lettered in time", timings.failed_moves.clone());
        timings
    }
}

/// Records a length of time in seconds.
pub(super) fn observe(histogram: &Histogram, duration: Duration) {
    histogram.observe(duration.as_secs_f64());
}
