//! From the policy's answers to what the store is asked to do. Pure.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::record::{Asked, rule};
use crate::model::decision::{Decision, Held, Standing, WaitFor, after_failure, after_policy_error, decide};
use crate::model::{Answers, DeadLetter, Deferral, RecoveryStatus, StreamMode, notes};
use crate::store::{Attempt, Candidate, DecisionRecord, Ending, Seen};

/// What was learned about a row: which policy was asked, and its answers or why it failed.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Which policy.
    pub asked: Asked,
    /// Its answers, or its failure in words.
    pub answers: Result<Answers, String>,
}

/// Whether a row keeps the order of its stream.
pub(super) fn keeps_order(entry: &DeadLetter, answers: &Answers) -> bool {
    answers.stream_mode == StreamMode::TailAware && entry.stream().is_some()
}

/// What is to be done with a claimed row.
#[derive(Debug, Clone)]
pub enum Step {
    /// Re-emit it.
    Attempt(Attempt),
    /// Do something else with it.
    End(Ending, Kind),
}

/// What an ending counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Held for review.
    Held,
    /// Given up.
    PermanentlyFailed,
    /// Waiting for a cooldown.
    Cooling,
    /// Waiting for a sibling.
    Blocked,
    /// Refused for now.
    Skipped,
    /// The policy failed; the row waits.
    PolicyError,
    /// The policy failed for the last time; the row is held.
    HeldByPolicyError,
}

/// What the rows of a scan have in common.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long a skipped row rests.
    pub scan_interval: Duration,
    /// Policy errors after which a row is held.
    pub max_policy_errors: u32,
    /// Whether a held row stops its stream.
    pub held_blocks_stream: bool,
    /// The scan's time.
    pub now: Timestamp,
}

/// Plans one row; `inputs` is what the policy saw of it.
#[must_use]
pub fn step(candidate: &Candidate, inputs: String, asking: &Asking, terms: Terms) -> Step {
    let entry = &candidate.entry;
    let answers = match &asking.answers {
        Ok(answers) => answers,
        Err(failure) => return policy_failed(entry, inputs, asking, failure, terms),
    };
    let decision = decide(entry, answers, &candidate.siblings, terms.scan_interval, terms.now);
    let record = DecisionRecord {
        decision: decision.name(),
        policy_name: asking.asked.name.clone(),
        policy_digest: asking.asked.digest.clone(),
        attempt: entry.recovery_attempts,
        rule: rule(answers),
        inputs,
        note: None,
    };
    match decision {
        Decision::Recover { on_credit } => Step::Attempt(Attempt {
            dead_letter_id: entry.dead_letter_id,
            source_table: entry.source_table,
            credit: entry.replay_credit.clone().filter(|_| on_credit),
            in_order: keeps_order(entry, answers),
            on_failure: after_failure(entry, &answers.policy, on_credit, terms.now),
            record: DecisionRecord { attempt: entry.recovery_attempts.saturating_add(1), ..record },
        }),
        Decision::Hold(why) => {
            end(entry, ended(RecoveryStatus::HoldForReview), Kind::Held, Some(held_note(why, entry)), record)
        }
        Decision::PermanentlyFail => {
            let note = format!("all {} recovery attempts are spent", entry.recovery_attempts);
            end(entry, ended(RecoveryStatus::PermanentlyFailed), Kind::PermanentlyFailed, Some(note), record)
        }
        Decision::Wait { not_before, until: WaitFor::Cooldown } => {
            let note = format!("its cooldown ends at {not_before}");
            end(entry, pending(not_before, Deferral::Cooldown), Kind::Cooling, Some(note), record)
        }
        Decision::Wait { not_before, until: WaitFor::Predecessor(earlier) } => {
            let note = notes::blocked(earlier);
            behind(earlier, end(entry, pending(not_before, Deferral::Stream), Kind::Blocked, Some(note), record))
        }
        Decision::Skip { not_before } => end(entry, pending(not_before, Deferral::Skip), Kind::Skipped, None, record),
    }
}

fn held_note(why: Held, entry: &DeadLetter) -> String {
    match why {
        Held::Exhausted if entry.recovery_attempts == 0 => "its policy allows no attempt".to_owned(),
        Held::Exhausted => format!("all {} recovery attempts are spent", entry.recovery_attempts),
        Held::SupersededBy(newer) => notes::superseded(newer),
    }
}

const fn ended(status: RecoveryStatus) -> Standing {
    Standing { status, next_recovery_at: None, deferral: None }
}

const fn pending(at: Timestamp, deferral: Deferral) -> Standing {
    Standing { status: RecoveryStatus::Pending, next_recovery_at: Some(at), deferral: Some(deferral) }
}

/// An ending on which the policy answered. A row that only goes on being skipped or blocked is not recorded again.
fn end(entry: &DeadLetter, standing: Standing, kind: Kind, note: Option<String>, record: DecisionRecord) -> Step {
    let repeated = matches!(kind, Kind::Skipped | Kind::Blocked) && entry.deferral == standing.deferral;
    let ending = Ending {
        dead_letter_id: entry.dead_letter_id,
        seen: Seen::of(entry),
        standing,
        // Whose refusal it is: another policy meets the row at once.
        policy_error_digest: (kind == Kind::Skipped).then(|| record.policy_digest.clone()),
        record: (!repeated).then(|| DecisionRecord { note: note.clone(), ..record }),
        note,
        policy_errors: 0,
    };
    Step::End(ending, kind)
}

/// The same, carried out only if this row stands in its way still.
fn behind(earlier: Uuid, step: Step) -> Step {
    match step {
        Step::End(ending, kind) => {
            let seen = Seen { predecessor: Some(earlier), ..ending.seen };
            Step::End(Ending { seen, ..ending }, kind)
        }
        attempt @ Step::Attempt(_) => attempt,
    }
}

fn policy_failed(entry: &DeadLetter, inputs: String, asking: &Asking, failure: &str, terms: Terms) -> Step {
    let digest = &asking.asked.digest;
    let before = if entry.policy_error_digest.as_ref() == Some(digest) { entry.policy_errors } else { 0 };
    let errors = before.saturating_add(1);
    let standing = after_policy_error(errors, terms.max_policy_errors, terms.now);
    let note = failure.to_owned();
    let kind = if standing.status == RecoveryStatus::Pending { Kind::PolicyError } else { Kind::HeldByPolicyError };
    let ending = Ending {
        dead_letter_id: entry.dead_letter_id,
        seen: Seen::of(entry),
        standing,
        record: Some(DecisionRecord {
            decision: "policy-error",
            policy_name: asking.asked.name.clone(),
            policy_digest: digest.clone(),
            attempt: entry.recovery_attempts,
            rule: "null".to_owned(),
            inputs,
            note: Some(note.clone()),
        }),
        note: Some(note),
        policy_errors: errors,
        policy_error_digest: Some(digest.clone()),
    };
    Step::End(ending, kind)
}
