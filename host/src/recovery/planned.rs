//! What is to be done with the rows of a claim, all of them together. Pure.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::plan::{Asking, Kind, Step, Terms, step};
use super::streams::still_going;
use crate::model::{DeadLetter, RecoveryStatus};
use crate::store::{Attempt, Candidate, Ending, Ruling};

/// A row as the report tells of it.
#[derive(Debug)]
pub struct Planned {
    /// As claimed.
    pub entry: DeadLetter,
    /// Who was asked about it, and what it said.
    pub ruling: Arc<Ruling>,
    /// The name that the policy gave its rule; the policy's own name when it did not answer.
    pub rule_name: String,
    /// What is to be done.
    pub told: Told,
}

/// What is to be done with a row, as far as the report tells it.
#[derive(Debug, Clone, Copy)]
pub enum Told {
    /// It is re-emitted; in vain, it goes where this says.
    Attempt {
        /// Pending, HoldForReview or PermanentlyFailed.
        on_failure: RecoveryStatus,
    },
    /// Something else.
    End(Kind),
}

/// What is to be done with the rows of a batch.
#[derive(Debug, Default)]
pub struct Plan {
    /// All of them.
    pub rows: Vec<Planned>,
    /// Those to be re-emitted, in this order.
    pub attempts: Vec<Attempt>,
    /// The others.
    pub endings: Vec<Ending>,
}

impl Plan {
    /// Plans rows, each with what the policy saw of it, in the order of their `places`; without any, as they come.
    #[must_use]
    pub fn of(
        rows: Vec<(Candidate, String)>,
        askings: Vec<Asking>,
        places: &HashMap<Uuid, usize>,
        terms: Terms,
    ) -> Self {
        let mut asked: Vec<_> = rows.into_iter().zip(askings).collect();
        if !places.is_empty() {
            asked.sort_by_key(|((row, _), _)| places.get(&row.entry.dead_letter_id));
        }
        let mut plan = Self::default();
        for ((candidate, inputs), asking) in asked {
            let step = step(&candidate, inputs, &asking, terms);
            plan.add(candidate.entry, asking, step);
        }
        plan
    }

    fn add(&mut self, entry: DeadLetter, asking: Asking, step: Step) {
        let told = match step {
            Step::Attempt(attempt) => {
                let told = Told::Attempt { on_failure: attempt.on_failure.status };
                self.attempts.push(attempt);
                told
            }
            Step::End(ending, kind) => {
                self.endings.push(ending);
                Told::End(kind)
            }
        };
        let Asking { ruling, answers } = asking;
        let rule_name = answers.map_or_else(|_| ruling.policy_name.clone(), |answers| answers.policy.name);
        self.rows.push(Planned { entry, ruling, rule_name, told });
    }

    /// The attempts that are left to be made once the store has carried out the endings of the rows `ended`.
    #[must_use]
    pub fn going(&self, ended: &HashSet<Uuid>) -> Cow<'_, [Attempt]> {
        if ended.len() == self.endings.len() {
            return Cow::Borrowed(&self.attempts);
        }
        Cow::Owned(still_going(&self.rows, &self.attempts, ended))
    }
}
