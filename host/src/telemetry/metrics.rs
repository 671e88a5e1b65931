//! The counters, under the names and dimensions that dashboards rely on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::gauges::Gauges;
use super::labels::PolicyNames;
use super::timings::{Timings, observe};
use super::totals::{Counting, Totals};
use crate::model::{FailureReason, SourceTable};

/// The meter that the counters belong to.
pub const METER: &str = "Whizbang.DeadLetters";

type OneLabel = [(&'static str, String); 1];
type TwoLabels = [(&'static str, String); 2];

/// Everything that is counted, timed and gauged. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    counters: Counters,
    timings: Timings,
    gauges: Gauges,
    names: PolicyNames,
    totals: Counting,
}

#[derive(Debug, Default)]
struct Counters {
    recovered: Family<OneLabel, Counter>,
    held: Family<TwoLabels, Counter>,
    permanently_failed: Family<TwoLabels, Counter>,
    recovery_attempts: Family<OneLabel, Counter>,
    generation_replay_scheduled: Family<OneLabel, Counter>,
    added: Family<TwoLabels, Counter>,
}

impl Counters {
    fn register(registry: &mut Registry) -> Self {
        let counters = Self::default();
        registry.register("otel_scope", "The meter", Info::new([("otel_scope_name", METER)]));
        let meter = registry.sub_registry_with_prefix("whizbang_dead_letters");
        meter.register("recovered", "Dead letters back in their source table", counters.recovered.clone());
        meter.register("held", "Dead letters held for review", counters.held.clone());
        meter.register("permanently_failed", "Dead letters given up", counters.permanently_failed.clone());
        meter.register("recovery_attempts", "Attempts made", counters.recovery_attempts.clone());
        let scheduled = counters.generation_replay_scheduled.clone();
        meter.register("generation_replay_scheduled", "Dead letters that a generation sweep reached", scheduled);
        meter.register("added", "Messages dead-lettered through this host", counters.added.clone());
        counters
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics that start at 0.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let counters = Counters::register(&mut registry);
        let timings = Timings::register(&mut registry);
        let gauges = Gauges::register(&mut registry);
        let (names, totals) = (PolicyNames::default(), Counting::default());
        Self(Arc::new(Inner { registry, counters, timings, gauges, names, totals }))
    }

    /// A dead letter is back in its source table.
    pub fn recovered(&self, source_table: SourceTable) {
        self.0.totals.recovered.fetch_add(1, Ordering::Relaxed);
        self.0.counters.recovered.get_or_create(&[("source_table", source_table.to_string())]).inc();
    }

    /// A dead letter was held for review.
    pub fn held(&self, policy_name: &str, reason: FailureReason) {
        self.0.totals.held.fetch_add(1, Ordering::Relaxed);
        self.0.counters.held.get_or_create(&self.policy_and_reason(policy_name, reason)).inc();
    }

    /// A dead letter was given up.
    pub fn permanently_failed(&self, policy_name: &str, reason: FailureReason) {
        self.0.totals.permanently_failed.fetch_add(1, Ordering::Relaxed);
        self.0.counters.permanently_failed.get_or_create(&self.policy_and_reason(policy_name, reason)).inc();
    }

    fn policy_and_reason(&self, policy_name: &str, reason: FailureReason) -> TwoLabels {
        [("policy_name", self.0.names.label(policy_name)), ("reason", reason.to_string())]
    }

    /// An attempt was counted.
    pub fn recovery_attempt(&self, reason: FailureReason) {
        self.0.counters.recovery_attempts.get_or_create(&[("reason", reason.to_string())]).inc();
    }

    /// A sweep reached so many dead letters.
    pub fn generation_replay_scheduled(&self, generation: &str, rows: u64) {
        self.0.totals.generation_replays.fetch_add(rows, Ordering::Relaxed);
        let labels = [("generation", generation.to_owned())];
        self.0.counters.generation_replay_scheduled.get_or_create(&labels).inc_by(rows);
    }

    /// A message was dead-lettered through this host.
    pub fn added(&self, source_table: SourceTable, reason: FailureReason) {
        let labels = [("source_table", source_table.to_string()), ("reason", reason.to_string())];
        self.0.counters.added.get_or_create(&labels).inc();
    }

    /// A message whose attempts are spent could not be dead-lettered.
    pub fn failed_move(&self, source_table: SourceTable) {
        self.0.timings.failed_moves.get_or_create(&[("source_table", source_table.to_string())]).inc();
    }

    /// A scan ended.
    pub fn scan(&self, duration: Duration) {
        self.0.totals.scans.fetch_add(1, Ordering::Relaxed);
        observe(&self.0.timings.scan, duration);
    }

    /// A policy was asked; the time is that of one entry, averaged over the batch.
    pub fn policy_call(&self, duration: Duration) {
        observe(&self.0.timings.policy_call, duration);
    }

    /// A batch was settled.
    pub fn settle(&self, duration: Duration) {
        observe(&self.0.timings.settle, duration);
    }

    /// A policy failed on an entry; `kind` is one of a fixed set, such as `timeout`.
    pub fn policy_error(&self, kind: &str) {
        self.0.timings.policy_errors.get_or_create(&[("kind", kind.to_owned())]).inc();
    }

    /// A policy file was loaded or refused; `outcome` is one of a fixed set, such as `loaded`.
    pub fn reload(&self, outcome: &str) {
        self.0.timings.reloads.get_or_create(&[("outcome", outcome.to_owned())]).inc();
    }

    /// A batch was lost to another host.
    pub fn lost_lease(&self) {
        self.0.timings.lost_leases.inc();
    }

    /// The subscription to signals was re-established.
    pub fn listener_reconnect(&self) {
        self.0.timings.listener_reconnects.inc();
    }

    /// A generation sweep failed.
    pub fn sweep_failed(&self) {
        self.0.timings.failed_sweeps.inc();
    }

    /// The gauges.
    #[must_use]
    pub fn gauges(&self) -> &Gauges {
        &self.0.gauges
    }

    /// The in-process totals.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.0.totals.read()
    }

    /// Everything in the Prometheus text format.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_text::encode(&mut text, &self.0.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_line(metrics: &Metrics, line: &str) {
        let text = metrics.encode();
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }

    #[test]
    fn counters_have_the_names_and_dimensions_of_the_contract() {
        let metrics = Metrics::new();
        metrics.recovered(SourceTable::Outbox);
        metrics.held("HoldForReview", FailureReason(4));
        metrics.permanently_failed("AggressiveRetry", FailureReason(8));
        metrics.recovery_attempt(FailureReason(1234));
        metrics.generation_replay_scheduled("shop-1.5.0", 7);
        metrics.added(SourceTable::PerspectiveEvents, FailureReason(5));
        assert_line(&metrics, r#"whizbang_dead_letters_recovered_total{source_table="wh_outbox"} 1"#);
        let held = r#"whizbang_dead_letters_held_total{policy_name="HoldForReview",reason="ValidationError"} 1"#;
        assert_line(&metrics, held);
        assert_line(
            &metrics,
            r#"whizbang_dead_letters_permanently_failed_total{policy_name="AggressiveRetry",reason="Throttled"} 1"#,
        );
        assert_line(&metrics, r#"whizbang_dead_letters_recovery_attempts_total{reason="1234"} 1"#);
        assert_line(&metrics, r#"whizbang_dead_letters_generation_replay_scheduled_total{generation="shop-1.5.0"} 7"#);
        assert_line(
            &metrics,
            r#"whizbang_dead_letters_added_total{source_table="wh_perspective_events",reason="MaxAttemptsExceeded"} 1"#,
        );
        assert_line(&metrics, r#"otel_scope_info{otel_scope_name="Whizbang.DeadLetters"} 1"#);
    }

    #[test]
    fn totals_start_at_zero_and_count_with_every_clone() {
        let metrics = Metrics::new();
        assert_eq!(metrics.totals(), Totals::default());
        let clone = metrics.clone();
        clone.scan(Duration::from_millis(3));
        clone.recovered(SourceTable::Inbox);
        clone.held("p", FailureReason::UNKNOWN);
        clone.permanently_failed("p", FailureReason::UNKNOWN);
        clone.generation_replay_scheduled("g", 3);
        let expected = Totals {
            total_scans: 1,
            total_recovered: 1,
            total_held: 1,
            total_permanently_failed: 1,
            total_generation_replays: 3,
        };
        assert_eq!(metrics.totals(), expected);
    }

    #[test]
    fn a_guest_cannot_break_out_of_a_label() {
        let metrics = Metrics::new();
        metrics.held("evil\"} 1\nfake_total 9", FailureReason::UNKNOWN);
        assert!(!metrics.encode().lines().any(|line| line.starts_with("fake_total")));
    }

    #[test]
    fn durations_are_told_in_seconds() {
        let metrics = Metrics::new();
        metrics.settle(Duration::from_millis(500));
        assert_line(&metrics, "reprieve_settle_duration_seconds_sum 0.5");
    }
}
