//! One dead letter as time passes: what a worker would make of it, decision by decision. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::dead_letter::OPERATOR_CREDIT;
use super::decision::{Decision, Held, Siblings, WaitFor, after_failure, decide};
use super::time::later;
use super::{Answers, DeadLetter, Deferral, Disposition, RecoveryStatus};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The row could not be put back into its source table.
    Fails,
    /// It was put back, and the message was dead-lettered again.
    DiesAgain,
}

/// A dead letter and its clock. There is no other row, and nobody else works on it.
#[derive(Debug, Clone)]
pub struct Timeline {
    entry: DeadLetter,
    now: Timestamp,
    scan_interval: Duration,
    /// Until when it waits, and how it ended, as it was decided here.
    waits_until: Option<Timestamp>,
    ended: Option<Decision>,
    /// What the decision to make an attempt was made of.
    attempt: Option<(Answers, bool)>,
}

impl Timeline {
    /// Starts at a time.
    #[must_use]
    pub const fn new(entry: DeadLetter, now: Timestamp, scan_interval: Duration) -> Self {
        Self { entry, now, scan_interval, waits_until: None, ended: None, attempt: None }
    }

    /// The row as it stands.
    #[must_use]
    pub const fn entry(&self) -> &DeadLetter {
        &self.entry
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// What a worker would do now that has these answers, which changes the row. Where it is not asked at all, since the
    /// row has ended or is not due yet, what it decided before stands.
    pub fn decide(&mut self, answers: &Answers) -> Decision {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        if let Some(not_before) = self.waits_until.filter(|until| *until > self.now) {
            return Decision::Wait { not_before, until: WaitFor::Cooldown };
        }
        let decision = decide(&self.entry, answers, &Siblings::default(), self.scan_interval, self.now);
        self.attempt = None;
        match &decision {
            Decision::Recover { on_credit } => self.attempt = Some((answers.clone(), *on_credit)),
            Decision::Hold(_) => self.stands(RecoveryStatus::HoldForReview, None, None),
            Decision::PermanentlyFail => self.stands(RecoveryStatus::PermanentlyFailed, None, None),
            Decision::Wait { not_before, .. } => {
                self.stands(RecoveryStatus::Pending, Some(*not_before), Some(Deferral::Cooldown));
            }
            Decision::Skip { not_before } => {
                self.stands(RecoveryStatus::Pending, Some(*not_before), Some(Deferral::Skip));
            }
        }
        decision
    }

    /// Ends the attempt that was decided on, now; `false` when none was.
    pub fn attempt_ends(&mut self, end: AttemptEnd) -> bool {
        let Some((answers, on_credit)) = self.attempt.take() else { return false };
        let standing = after_failure(&self.entry, &answers.policy, on_credit, self.now);
        let entry = &mut self.entry;
        entry.recovery_attempts = entry.recovery_attempts.saturating_add(i32::from(!on_credit));
        entry.last_recovery_at = Some(self.now);
        (entry.replay_credit, entry.replay_credit_at) = (None, None);
        match end {
            AttemptEnd::Fails => self.stands(standing.status, standing.next_recovery_at, standing.deferral),
            AttemptEnd::DiesAgain => {
                entry.incarnation = entry.incarnation.saturating_add(1);
                entry.dead_lettered_at = self.now;
                self.is_due();
            }
        }
        true
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        self.now = later(self.now, time);
    }

    /// Sweeps for a generation.
    pub fn sweep(&mut self, generation: &str) {
        let entry = &mut self.entry;
        let reached = entry.recovery_status != RecoveryStatus::PermanentlyFailed
            && entry.operator_disposition != Disposition::HoldIndefinitely
            && !entry.retried_on_generations.iter().any(|tag| tag == generation);
        if !reached {
            return;
        }
        entry.retried_on_generations.push(generation.to_owned());
        if entry.generation == generation {
            // No new build for it: it is looked at, unless it is held.
            if entry.recovery_status != RecoveryStatus::HoldForReview {
                self.is_due();
            }
            return;
        }
        self.grants(generation);
    }

    /// An operator's retry.
    pub fn retry(&mut self) {
        self.entry.operator_disposition = Disposition::None;
        self.grants(OPERATOR_CREDIT);
    }

    fn grants(&mut self, credit: &str) {
        self.entry.replay_credit = Some(credit.to_owned());
        self.entry.replay_credit_at = Some(self.now);
        self.is_due();
    }

    fn is_due(&mut self) {
        self.stands(RecoveryStatus::Pending, None, None);
    }

    fn stands(&mut self, status: RecoveryStatus, next: Option<Timestamp>, deferral: Option<Deferral>) {
        self.entry.recovery_status = status;
        (self.entry.next_recovery_at, self.entry.deferral) = (next, deferral);
        self.waits_until = next;
        self.ended = match status {
            RecoveryStatus::HoldForReview => Some(Decision::Hold(Held::Exhausted)),
            RecoveryStatus::PermanentlyFailed => Some(Decision::PermanentlyFail),
            RecoveryStatus::Pending | RecoveryStatus::Recovering | RecoveryStatus::Recovered => None,
        };
    }
}
