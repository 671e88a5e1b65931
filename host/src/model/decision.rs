//! What becomes of one dead letter.
//!
//! [`decide`] is asked before an attempt, [`after_failure`] and [`after_policy_error`] when one went wrong. They are
//! pure: the same arguments give the same answer, and every command that speaks of decisions calls these functions.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::time::later;
use super::{Answers, DeadLetter, Deferral, RecoveryPolicy, RecoveryStatus, StreamMode};

/// The shortest wait after a failed attempt.
pub const MIN_FAILURE_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after a failed attempt.
pub const MAX_FAILURE_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The wait after the first failure of a policy on a row; it doubles with each further one.
pub const MIN_POLICY_ERROR_WAIT: Duration = Duration::from_secs(60);
/// The longest wait after a failure of a policy on a row.
pub const MAX_POLICY_ERROR_WAIT: Duration = Duration::from_secs(60 * 60);

/// An earlier open dead letter of the same stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    /// Which one.
    pub dead_letter_id: Uuid,
    /// When it falls due; `None` when no time is set for it.
    pub due_at: Option<Timestamp>,
}

/// What the store knows about the other dead letters that matter to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Siblings {
    /// A later death of the same message.
    pub superseded_by: Option<Uuid>,
    /// The row that stands before this one in its stream.
    pub predecessor: Option<Predecessor>,
}

/// What is to be done with a dead letter now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// An attempt is made. With `on_credit` it is a free one and leaves `recovery_attempts` as it is.
    Recover {
        /// Whether the row's credit pays for it.
        on_credit: bool,
    },
    /// It is held for an operator or a new generation.
    Hold(Held),
    /// It is given up.
    PermanentlyFail,
    /// It is looked at again at `not_before`.
    Wait {
        /// The first moment at which an attempt is allowed.
        not_before: Timestamp,
        /// What it waits for.
        until: WaitFor,
    },
    /// The policy does not want it tried now; it is looked at again at `not_before`.
    Skip {
        /// When.
        not_before: Timestamp,
    },
}

/// Why a row is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Its attempts are spent, or there never were any.
    Exhausted,
    /// The message has died again since; that row is the one to recover.
    SupersededBy(Uuid),
}

/// What a row waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// The policy's cooldown.
    Cooldown,
    /// This earlier dead letter of its stream.
    Predecessor(Uuid),
}

impl Decision {
    /// The name in JSON, case tables and recorded decisions.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Recover { .. } => "recover",
            Self::Hold(_) => "hold",
            Self::PermanentlyFail => "permanently-fail",
            Self::Wait { .. } => "wait",
            Self::Skip { .. } => "skip",
        }
    }
}

/// Decides what to do with a dead letter that is due.
///
/// `scan_interval` is how long a row rests that the policy does not want tried, and the longest that it waits for an
/// earlier row of its stream, which makes it due when it is out of its way. The order of the rules is a contract:
/// superseded, refused by the policy, out of budget, cooling down, behind a sibling, recover.
#[must_use]
pub fn decide(
    entry: &DeadLetter,
    answers: &Answers,
    siblings: &Siblings,
    scan_interval: Duration,
    now: Timestamp,
) -> Decision {
    if let Some(newer) = siblings.superseded_by {
        return Decision::Hold(Held::SupersededBy(newer));
    }
    if !answers.should_recover {
        return Decision::Skip { not_before: later(now, scan_interval) };
    }
    let policy = &answers.policy;
    let on_credit = entry.replay_credit.is_some();
    if !on_credit {
        if !budget_left(entry.recovery_attempts, policy) {
            return exhausted(policy);
        }
        if let Some(not_before) = cooling_until(entry, policy).filter(|until| *until > now) {
            return Decision::Wait { not_before, until: WaitFor::Cooldown };
        }
    }
    match (answers.stream_mode, siblings.predecessor) {
        (StreamMode::TailAware, Some(earlier)) => Decision::Wait {
            // A row that is due already may be somebody else's to claim.
            not_before: earlier
                .due_at
                .filter(|due_at| *due_at > now)
                .map_or(later(now, scan_interval), |due_at| due_at.min(later(now, scan_interval))),
            until: WaitFor::Predecessor(earlier.dead_letter_id),
        },
        (StreamMode::TailAware | StreamMode::PerMessage, _) => Decision::Recover { on_credit },
    }
}

fn budget_left(attempts: i32, policy: &RecoveryPolicy) -> bool {
    u32::try_from(attempts).unwrap_or(0) < policy.max_recovery_attempts
}

fn exhausted(policy: &RecoveryPolicy) -> Decision {
    if policy.hold_for_review_after_exhaustion { Decision::Hold(Held::Exhausted) } else { Decision::PermanentlyFail }
}

/// The first moment at which the policy's cooldown allows an attempt; `None` when nothing has to cool down.
fn cooling_until(entry: &DeadLetter, policy: &RecoveryPolicy) -> Option<Timestamp> {
    match entry.last_recovery_at {
        Some(last) => Some(later(last, policy.cooldown)),
        None if policy.delay_first_attempt && entry.recovery_attempts == 0 => {
            Some(later(entry.dead_lettered_at, policy.cooldown))
        }
        None => None,
    }
}

/// Where a row stands after an attempt or a policy call that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Pending, HoldForReview or PermanentlyFailed.
    pub status: RecoveryStatus,
    /// When it is looked at again; `None` unless it is pending.
    pub next_recovery_at: Option<Timestamp>,
    /// Why then; `None` unless it is pending.
    pub deferral: Option<Deferral>,
}

impl Standing {
    const fn ended(status: RecoveryStatus) -> Self {
        Self { status, next_recovery_at: None, deferral: None }
    }

    fn waits(now: Timestamp, wait: Duration, deferral: Deferral) -> Self {
        Self { status: RecoveryStatus::Pending, next_recovery_at: Some(later(now, wait)), deferral: Some(deferral) }
    }
}

/// Where a row goes whose attempt was made at `now` and could not be inserted into its source table.
///
/// The wait is the cooldown, doubled for each failed attempt after the first, at least [`MIN_FAILURE_WAIT`] and at
/// most [`MAX_FAILURE_WAIT`]. When the budget is spent, the row is held or given up as the policy says.
#[must_use]
pub fn after_failure(entry: &DeadLetter, policy: &RecoveryPolicy, on_credit: bool, now: Timestamp) -> Standing {
    let attempts = entry.recovery_attempts.saturating_add(i32::from(!on_credit));
    if !budget_left(attempts, policy) {
        return Standing::ended(if policy.hold_for_review_after_exhaustion {
            RecoveryStatus::HoldForReview
        } else {
            RecoveryStatus::PermanentlyFailed
        });
    }
    let wait = doubled(policy.cooldown, attempts).clamp(MIN_FAILURE_WAIT, MAX_FAILURE_WAIT);
    Standing::waits(now, wait, Deferral::Failure)
}

/// Where a row goes on which the policy has failed for the `errors`-th time.
///
/// The wait is [`MIN_POLICY_ERROR_WAIT`], doubled for each error after the first, at most [`MAX_POLICY_ERROR_WAIT`];
/// at `max_errors` the row is held.
#[must_use]
pub fn after_policy_error(errors: i32, max_errors: u32, now: Timestamp) -> Standing {
    if u32::try_from(errors).unwrap_or(0) >= max_errors {
        return Standing::ended(RecoveryStatus::HoldForReview);
    }
    let wait = doubled(MIN_POLICY_ERROR_WAIT, errors).min(MAX_POLICY_ERROR_WAIT);
    Standing::waits(now, wait, Deferral::PolicyError)
}

/// `base` × 2^(`count` − 1), without overflow.
fn doubled(base: Duration, count: i32) -> Duration {
    let exponent = u32::try_from(count.saturating_sub(1)).unwrap_or(0).min(31);
    base.saturating_mul(1 << exponent)
}

#[cfg(test)]
mod tests;
