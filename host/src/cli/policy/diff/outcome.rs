//! What a policy makes of a dead letter, and in what two of that differ.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::policy::cases::expect;
use crate::cli::policy::cases::trials::Tried;
use crate::cli::policy::eval::{SCAN_INTERVAL, not_before};
use crate::model::decision::{Decision, Siblings, decide};
use crate::model::text::excerpt;
use crate::model::{Answers, DeadLetter};
use crate::policy::PolicyFailure;

/// Stands where a decision would: the policy did not answer.
pub const FAILS: &str = "fails";
/// How many characters of a failure are kept.
const MAX_FAILURE: usize = 300;

/// What a policy makes of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The decision's name, or [`FAILS`].
    pub decision: &'static str,
    /// For a wait: until when, as far as it is known.
    pub not_before: Option<Timestamp>,
    /// What the policy answered.
    pub answers: Option<Answers>,
    /// Why it did not.
    failure: Option<String>,
}

/// In what two outcomes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// Something else is done.
    Decision,
    /// Both wait, until different times.
    Time,
    /// The same is done now, but the policies answered otherwise, so that a later decision may differ.
    Answers,
}

impl Outcome {
    /// What a host would do with a row.
    pub fn of(entry: &DeadLetter, siblings: &Siblings, answer: Result<Answers, PolicyFailure>, now: Timestamp) -> Self {
        match answer {
            Ok(answers) => {
                let decision = decide(entry, &answers, siblings, SCAN_INTERVAL, now);
                Self::decided(&decision, answers)
            }
            Err(failure) => Self::fails(&failure.to_string()),
        }
    }

    /// What came of a step of a case; `None` when nobody was asked.
    pub fn tried(tried: Tried) -> Option<Self> {
        match tried {
            Tried::Answered(answers, decision) => Some(Self::decided(&decision, answers)),
            Tried::Failed(failure) => Some(Self::fails(&failure.to_string())),
            Tried::NoAttempt => None,
        }
    }

    /// A decision that was recorded by its name.
    pub const fn recorded(decision: &'static str, not_before: Option<Timestamp>, answers: Option<Answers>) -> Self {
        Self { decision, not_before, answers, failure: None }
    }

    fn decided(decision: &Decision, answers: Answers) -> Self {
        let not_before = not_before(decision);
        Self { decision: decision.name(), not_before, answers: Some(answers), failure: None }
    }

    /// No answer, for a reason.
    pub fn fails(failure: &str) -> Self {
        Self { decision: FAILS, not_before: None, answers: None, failure: Some(excerpt(failure, MAX_FAILURE)) }
    }

    /// In what the other one differs. Two that fail do not: the same becomes of the row.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let both = |one: bool, two: bool| one && two;
        if self.decision != other.decision {
            return Some(Difference::Decision);
        }
        if both(self.not_before.is_some(), other.not_before.is_some()) && self.not_before != other.not_before {
            return Some(Difference::Time);
        }
        let answered = both(self.answers.is_some(), other.answers.is_some());
        (answered && self.answers != other.answers).then_some(Difference::Answers)
    }

    /// The whole of it, as `policy eval` prints it with the cooldown as people write it.
    pub fn document(&self) -> Value {
        let Some(answers) = &self.answers else {
            return json!({ "decision": self.decision, "failure": self.failure });
        };
        expect::document(answers, self.decision, self.not_before)
    }
}

/// The answers by their keys in [`Outcome::document`].
pub const ANSWERS: [&str; 7] = [
    "policy.name",
    "policy.max_recovery_attempts",
    "policy.cooldown",
    "policy.hold_for_review_after_exhaustion",
    "policy.delay_first_attempt",
    "stream_mode",
    "should_recover",
];

/// Which answers differ in two documents that both have them.
pub fn changed(old: &Value, new: &Value) -> Vec<&'static str> {
    ANSWERS.into_iter().filter(|key| expect::found(old, key) != expect::found(new, key)).collect()
}
