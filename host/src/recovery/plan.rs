//! From the policy's answers to what the store is asked to do. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::record::rule;
use crate::model::decision::{Decision, Held, Standing, WaitFor, after_failure, after_policy_error, decide};
use crate::model::{Answers, DeadLetter, Deferral, RecoveryStatus, StreamMode, notes};
use crate::store::{Attempt, Candidate, DecisionRecord, Ending, Ruling, Seen};

/// What was learned about a row.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Which policy was asked and what it said, to be recorded.
    pub ruling: Arc<Ruling>,
    /// Its answers, or its failure in words.
    pub answers: Result<Answers, String>,
}

impl Asking {
    /// What a policy said of each row. Those that follow one another and were answered alike share their ruling.
    #[must_use]
    pub fn each(
        policy_name: &str,
        policy_digest: &str,
        answers: impl IntoIterator<Item = Result<Answers, String>>,
    ) -> Vec<Self> {
        let mut askings: Vec<Self> = Vec::new();
        for answers in answers {
            let ruling = match askings.last() {
                Some(last) if last.answers.as_ref().ok() == answers.as_ref().ok() => Arc::clone(&last.ruling),
                _ => Arc::new(Ruling {
                    policy_name: policy_name.to_owned(),
                    policy_digest: policy_digest.to_owned(),
                    rule: answers.as_ref().map_or_else(|_| "null".to_owned(), rule),
                }),
            };
            askings.push(Self { ruling, answers });
        }
        askings
    }
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
    let record = DecisionRecord { ruling: Arc::clone(&asking.ruling), attempt: entry.recovery_attempts, inputs };
    let name = decision.name();
    let mut seen = Seen::of(entry);
    let told = match decision {
        Decision::Recover { on_credit } => return Step::Attempt(attempt(entry, answers, on_credit, record, terms.now)),
        Decision::Hold(why) => (ended(RecoveryStatus::HoldForReview), Kind::Held, Some(held_note(why, entry))),
        Decision::PermanentlyFail => {
            let note = format!("all {} recovery attempts are spent", entry.recovery_attempts);
            (ended(RecoveryStatus::PermanentlyFailed), Kind::PermanentlyFailed, Some(note))
        }
        Decision::Wait { not_before, until: WaitFor::Cooldown } => {
            let note = format!("its cooldown ends at {not_before}");
            (pending(not_before, Deferral::Cooldown), Kind::Cooling, Some(note))
        }
        Decision::Wait { not_before, until: WaitFor::Predecessor(earlier) } => {
            // Carried out only if that row stands in its way still.
            seen.predecessor = Some(earlier);
            (pending(not_before, Deferral::Stream), Kind::Blocked, Some(notes::blocked(earlier)))
        }
        Decision::Skip { not_before } => (pending(not_before, Deferral::Skip), Kind::Skipped, None),
    };
    end(entry, seen, name, told, record)
}

fn attempt(entry: &DeadLetter, answers: &Answers, on_credit: bool, record: DecisionRecord, now: Timestamp) -> Attempt {
    Attempt {
        dead_letter_id: entry.dead_letter_id,
        source_table: entry.source_table,
        credit: entry.replay_credit.clone().filter(|_| on_credit),
        in_order: keeps_order(entry, answers),
        on_failure: after_failure(entry, &answers.policy, on_credit, now),
        record: DecisionRecord { attempt: entry.recovery_attempts.saturating_add(1), ..record },
    }
}

/// An ending on which the policy answered. A row that only goes on being skipped or blocked is not recorded again.
fn end(
    entry: &DeadLetter,
    seen: Seen,
    decision: &'static str,
    (standing, kind, note): (Standing, Kind, Option<String>),
    record: DecisionRecord,
) -> Step {
    let repeated = matches!(kind, Kind::Skipped | Kind::Blocked) && entry.deferral == standing.deferral;
    let ending = Ending {
        dead_letter_id: entry.dead_letter_id,
        seen,
        standing,
        note,
        policy_errors: 0,
        // Whose refusal it is: another policy meets the row at once.
        policy_error_digest: (kind == Kind::Skipped).then(|| record.ruling.policy_digest.clone()),
        decision,
        record: (!repeated).then_some(record),
    };
    Step::End(ending, kind)
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

fn policy_failed(entry: &DeadLetter, inputs: String, asking: &Asking, failure: &str, terms: Terms) -> Step {
    let digest = &asking.ruling.policy_digest;
    let before = if entry.policy_error_digest.as_ref() == Some(digest) { entry.policy_errors } else { 0 };
    let errors = before.saturating_add(1);
    let standing = after_policy_error(errors, terms.max_policy_errors, terms.now);
    let kind = if standing.status == RecoveryStatus::Pending { Kind::PolicyError } else { Kind::HeldByPolicyError };
    let ruling = Arc::clone(&asking.ruling);
    let ending = Ending {
        dead_letter_id: entry.dead_letter_id,
        seen: Seen::of(entry),
        standing,
        note: Some(failure.to_owned()),
        policy_errors: errors,
        policy_error_digest: Some(digest.clone()),
        decision: "policy-error",
        record: Some(DecisionRecord { ruling, attempt: entry.recovery_attempts, inputs }),
    };
    Step::End(ending, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RecoveryPolicy;

    fn answers(name: &str) -> Result<Answers, String> {
        let policy = RecoveryPolicy {
            name: name.to_owned(),
            max_recovery_attempts: 3,
            cooldown: Duration::ZERO,
            hold_for_review_after_exhaustion: true,
            delay_first_attempt: false,
        };
        Ok(Answers { should_recover: true, policy, stream_mode: StreamMode::PerMessage })
    }

    #[test]
    fn rows_that_follow_one_another_and_were_answered_alike_share_what_is_recorded_of_it() {
        let failed = |why: &str| Err(why.to_owned());
        let said = [answers("a"), answers("a"), answers("b"), failed("one"), failed("two"), answers("b"), answers("a")];

        let askings = Asking::each("p", "d", said.clone());

        let shared: Vec<bool> = askings.windows(2).map(|two| Arc::ptr_eq(&two[0].ruling, &two[1].ruling)).collect();
        assert_eq!(shared, [true, false, false, true, false, false]);
        for (asking, said) in askings.into_iter().zip(said) {
            let expected = said.as_ref().map_or_else(|_| "null".to_owned(), rule);
            assert_eq!(asking.ruling.rule, expected);
            assert_eq!((&*asking.ruling.policy_name, &*asking.ruling.policy_digest), ("p", "d"));
            assert_eq!(asking.answers, said);
        }
    }
}
