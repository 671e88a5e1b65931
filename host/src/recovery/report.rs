//! What was committed, told to the counts, the metrics and the log.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::ScanCounts;
use super::plan::Kind;
use super::planned::{Planned, Told};
use crate::model::RecoveryStatus;
use crate::store::Outcome;
use crate::telemetry::Metrics;

/// Adds up one batch. Every method is called after the commit of what it tells.
pub(super) struct Report {
    metrics: Metrics,
    counts: ScanCounts,
}

impl Report {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, counts: ScanCounts::default() }
    }

    pub(super) const fn counts(&self) -> ScanCounts {
        self.counts
    }

    /// A row that could not be read and is held now.
    pub(super) fn unreadable(&mut self, dead_letter_id: &str, problem: &str) {
        self.counts.scanned += 1;
        self.counts.held += 1;
        tracing::warn!(dead_letter_id, problem, "a dead letter cannot be read and is held");
    }

    /// The batch was dissolved by another host.
    pub(super) fn lost(&self) {
        self.metrics.lost_lease();
        tracing::warn!("a batch was lost to another host");
    }

    /// The decisions that re-emit nothing were carried out.
    pub(super) fn begun(&mut self, planned: &[Planned], ended: &HashSet<Uuid>) {
        for row in planned {
            match row.told {
                Told::Attempt { .. } => {}
                Told::End(kind) if ended.contains(&row.entry.dead_letter_id) => self.ended(row, kind),
                Told::End(_) => {
                    tracing::debug!(dead_letter_id = %row.entry.dead_letter_id, "changed since it was claimed; left alone");
                }
            }
        }
    }

    /// The attempts, which are counted already, are made now.
    pub(super) fn attempting(&mut self, planned: &[Planned]) {
        for row in planned.iter().filter(|row| matches!(row.told, Told::Attempt { .. })) {
            self.counts.scanned += 1;
            self.metrics.recovery_attempt(row.entry.failure_reason);
        }
    }

    fn ended(&mut self, row: &Planned, kind: Kind) {
        self.counts.scanned += 1;
        match kind {
            Kind::Held => self.counts.held += 1,
            Kind::PermanentlyFailed => self.counts.permanently_failed += 1,
            Kind::Cooling => self.counts.deferred += 1,
            Kind::Blocked => self.counts.blocked += 1,
            Kind::Skipped => self.counts.skipped += 1,
            Kind::PolicyError => {
                self.counts.deferred += 1;
                self.counts.policy_errors += 1;
            }
            Kind::HeldByPolicyError => {
                self.counts.held += 1;
                self.counts.policy_errors += 1;
            }
        }
        match kind {
            Kind::Held | Kind::HeldByPolicyError => self.held(row),
            Kind::PermanentlyFailed => self.permanently_failed(row),
            Kind::Cooling | Kind::Blocked | Kind::Skipped | Kind::PolicyError => {}
        }
        log(row, kind.message());
    }

    /// The attempts were made: all of them if this is `complete`, else those that it tells of.
    pub(super) fn settled(&mut self, planned: &[Planned], outcomes: &HashMap<Uuid, Outcome>, complete: bool) {
        if !outcomes.is_empty() && outcomes.values().all(|outcome| *outcome == Outcome::Lost) {
            self.lost();
        }
        for row in planned {
            let outcome = outcomes.get(&row.entry.dead_letter_id).or(complete.then_some(&Outcome::Lost));
            if let (Told::Attempt { on_failure }, Some(outcome)) = (row.told, outcome) {
                self.attempted(row, on_failure, outcome);
            }
        }
    }

    fn attempted(&mut self, row: &Planned, on_failure: RecoveryStatus, outcome: &Outcome) {
        match outcome {
            Outcome::Recovered => {
                self.counts.recovered += 1;
                self.metrics.recovered(row.entry.source_table);
                log(row, "re-emitted");
            }
            Outcome::SourcePresent => {
                self.counts.held += 1;
                self.held(row);
                log(row, "held: its source row is there already");
            }
            Outcome::Gone => {
                self.counts.held += 1;
                self.held(row);
                log(row, "held: its event is gone");
            }
            Outcome::Superseded => {
                self.counts.held += 1;
                self.held(row);
                log(row, "held: its message has died again");
            }
            Outcome::Blocked => {
                self.counts.blocked += 1;
                log(row, "waiting for an earlier row of its stream, which was not re-emitted");
            }
            Outcome::Failed(error) => self.insert_failed(row, on_failure, error),
            Outcome::Unsettled(error) => {
                self.counts.failed += 1;
                tracing::error!(
                    dead_letter_id = %row.entry.dead_letter_id,
                    error,
                    "the database refuses to change this dead letter; it is tried again after scan_interval"
                );
            }
            Outcome::Lost => log(row, "left alone: settled by somebody else"),
        }
    }

    fn insert_failed(&mut self, row: &Planned, on_failure: RecoveryStatus, error: &str) {
        self.counts.failed += 1;
        match on_failure {
            RecoveryStatus::HoldForReview => self.held(row),
            RecoveryStatus::PermanentlyFailed => self.permanently_failed(row),
            RecoveryStatus::Pending | RecoveryStatus::Recovering | RecoveryStatus::Recovered => {}
        }
        tracing::warn!(
            dead_letter_id = %row.entry.dead_letter_id,
            policy = row.ruling.policy_name,
            digest = row.ruling.policy_digest,
            error,
            "could not be re-emitted"
        );
    }

    fn held(&self, row: &Planned) {
        self.metrics.held(&row.rule_name, row.entry.failure_reason);
    }

    fn permanently_failed(&self, row: &Planned) {
        self.metrics.permanently_failed(&row.rule_name, row.entry.failure_reason);
    }
}

fn log(row: &Planned, message: &'static str) {
    tracing::info!(
        dead_letter_id = %row.entry.dead_letter_id,
        policy = row.ruling.policy_name,
        digest = row.ruling.policy_digest,
        rule = row.rule_name,
        "{message}"
    );
}

impl Kind {
    const fn message(self) -> &'static str {
        match self {
            Self::Held => "held for review",
            Self::PermanentlyFailed => "given up",
            Self::Cooling => "cooling down",
            Self::Blocked => "waiting for an earlier row of its stream",
            Self::Skipped => "refused by the policy for now",
            Self::PolicyError => "the policy failed; waiting",
            Self::HeldByPolicyError => "the policy failed too often; held for review",
        }
    }
}
