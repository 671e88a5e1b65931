//! Asking the old policy and the new one.

use anyhow::anyhow;
use jiff::Timestamp;

use super::outcome::Outcome;
use super::tally::Tally;
use crate::model::Answers;
use crate::model::view::PolicyView;
use crate::policy::{FailureKind, Policy, PolicyFailure, Session};
use crate::store::Candidate;

type Answer = Result<Answers, PolicyFailure>;

/// How many rows may fail a second time for want of time before nothing is asked twice any more.
const SECOND_LOOKS: u32 = 100;

/// A policy, with one instance for the rows of the same time.
pub struct Side {
    policy: Policy,
    session: Option<(Timestamp, Session)>,
    second_looks: u32,
}

impl Side {
    /// Nothing is instantiated yet.
    pub const fn new(policy: Policy) -> Self {
        Self { policy, session: None, second_looks: SECOND_LOOKS }
    }

    /// The policy's answers about each row as `views` shows them, in their order. What took too long is asked once more:
    /// among a million calls some are held up by a busy machine, and that is no difference between policies.
    ///
    /// # Errors
    ///
    /// The host could not ask. A policy that fails on a row has failed on that row alone.
    pub async fn ask(&mut self, views: impl Fn() -> Vec<PolicyView>, now: Timestamp) -> anyhow::Result<Vec<Answer>> {
        let mut answers = self.answers(views(), now).await?;
        let late: Vec<usize> = (0..answers.len()).filter(|at| answers.get(*at).is_some_and(is_late)).collect();
        if late.is_empty() {
            return Ok(answers);
        }
        for (place, view) in views().into_iter().enumerate().filter(|(place, _)| late.contains(place)) {
            if self.second_looks == 0 {
                break;
            }
            let second = self.answers(vec![view], now).await?.pop();
            if let (Some(first), Some(second)) = (answers.get_mut(place), second) {
                self.second_looks -= u32::from(is_late(&second));
                *first = second;
            }
        }
        Ok(answers)
    }

    async fn answers(&mut self, views: Vec<PolicyView>, now: Timestamp) -> anyhow::Result<Vec<Answer>> {
        let (_, session) = match self.session.take().filter(|(at, _)| *at == now) {
            Some(same) => self.session.insert(same),
            None => self.session.insert((now, self.policy.session(now))),
        };
        let answers = session.ask(views).await;
        let mut failures = answers.iter().filter_map(|answer| answer.as_ref().err());
        match failures.find(|failure| failure.kind == FailureKind::Host) {
            Some(failure) => Err(anyhow!("{failure}")),
            None => Ok(answers),
        }
    }
}

fn is_late(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|failure| matches!(failure.kind, FailureKind::Timeout | FailureKind::Start))
}

/// Both policies, asked at the same time.
pub struct Sides {
    /// The one to be compared with.
    pub old: Side,
    /// The one that may take its place.
    pub new: Side,
}

impl Sides {
    /// Compares what both make of some rows; `name` tells what the row at a place is called.
    ///
    /// # Errors
    ///
    /// As [`Side::ask`].
    pub async fn compare(
        &mut self,
        rows: &[Candidate],
        now: Timestamp,
        tally: &mut Tally,
        name: impl Fn(usize) -> String,
    ) -> anyhow::Result<()> {
        let views = || rows.iter().map(|row| PolicyView::of(&row.entry)).collect();
        let (old, new) = tokio::try_join!(self.old.ask(views, now), self.new.ask(views, now))?;
        for ((place, row), (old, new)) in rows.iter().enumerate().zip(old.into_iter().zip(new)) {
            let made_of = |answer| Outcome::of(&row.entry, &row.siblings, answer, now);
            tally.add(&row.entry, &made_of(old), &made_of(new), || name(place));
        }
        Ok(())
    }
}
