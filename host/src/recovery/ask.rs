//! Asking the policy, and the fallback about what the policy failed on.

use std::time::Instant;

use jiff::Timestamp;

use super::plan::Asking;
use super::scan::{ScanError, Scanner};
use crate::model::view::PolicyView;
use crate::model::{Answers, OnPolicyError};
use crate::policy::{FailureKind, Policy, PolicyFailure, Session};
use crate::store::Candidate;

/// What a scan keeps from claim to claim.
pub(super) struct Asker {
    policy: Policy,
    session: Option<Session>,
    fallback: Option<Session>,
    /// The scan's time: that of its first claim.
    pub now: Option<Timestamp>,
    /// Whether the policy has answered in this scan, for a row or for the probe entries.
    answered: bool,
}

impl Asker {
    pub(super) const fn new(policy: Policy) -> Self {
        Self { policy, session: None, fallback: None, now: None, answered: false }
    }

    /// Asks about each row as `views` show it, in their order.
    ///
    /// # Errors
    ///
    /// [`ScanError::PolicyFails`] when the fault is not a row's: the policy has answered nothing in this scan, not even
    /// the probe entries, and no fallback answered instead; or the host could not ask.
    pub(super) async fn ask(
        &mut self,
        scanner: &Scanner,
        rows: &[Candidate],
        views: Vec<PolicyView>,
        now: Timestamp,
    ) -> Result<Vec<Asking>, ScanError> {
        let answers = self.answers(scanner, views, now).await;
        self.answered |= answers.iter().any(Result::is_ok);
        let failures: Vec<&PolicyFailure> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        if let Some(failure) = failures.iter().find(|failure| failure.kind == FailureKind::Host) {
            return Err(fails(&self.policy, &failure.to_string()));
        }
        let failure = failures.first().map(ToString::to_string);
        let mut askings = told(&self.policy, answers);
        self.ask_fallback(scanner, rows, now, &mut askings).await;
        if let Some(failure) = failure
            && !self.answered
            && askings.iter().any(|asking| asking.answers.is_err())
        {
            self.policy.probe(now).await.map_err(|_| fails(&self.policy, &failure))?;
            self.answered = true;
        }
        Ok(askings)
    }

    async fn answers(
        &mut self,
        scanner: &Scanner,
        views: Vec<PolicyView>,
        now: Timestamp,
    ) -> Vec<Result<Answers, PolicyFailure>> {
        let started = Instant::now();
        let policy = &self.policy;
        let answers = self.session.get_or_insert_with(|| policy.session(now)).ask(views).await;
        if let Some(each) = u32::try_from(answers.len()).ok().and_then(|rows| started.elapsed().checked_div(rows)) {
            scanner.metrics.policy_call(each);
        }
        for failure in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            scanner.metrics.policy_error(failure.kind.name());
        }
        answers
    }

    /// Has the fallback, if there is one, answer where the policy failed.
    async fn ask_fallback(&mut self, scanner: &Scanner, rows: &[Candidate], now: Timestamp, askings: &mut [Asking]) {
        let (OnPolicyError::Fallback, Some(fallback)) = (scanner.options.on_policy_error, &scanner.fallback) else {
            return;
        };
        let failed: Vec<(&Candidate, &mut Asking)> =
            rows.iter().zip(askings).filter(|(_, asking)| asking.answers.is_err()).collect();
        let Some(failure) = failed.first().and_then(|(_, asking)| asking.answers.as_ref().err()).cloned() else {
            return;
        };
        tracing::warn!(rows = failed.len(), failure, "the policy failed; the default matrix is asked instead");
        let again = failed.iter().map(|(row, _)| PolicyView::of(&row.entry)).collect();
        let answers = self.fallback.get_or_insert_with(|| fallback.session(now)).ask(again).await;
        for ((_, asking), said) in failed.into_iter().zip(told(fallback, answers)) {
            if said.answers.is_ok() {
                *asking = said;
            }
        }
    }
}

fn told(policy: &Policy, answers: Vec<Result<Answers, PolicyFailure>>) -> Vec<Asking> {
    let answers = answers.into_iter().map(|answer| answer.map_err(|failure| failure.to_string()));
    Asking::each(policy.name(), policy.digest(), answers)
}

fn fails(policy: &Policy, failure: &str) -> ScanError {
    ScanError::PolicyFails {
        name: policy.name().to_owned(),
        digest: policy.digest().to_owned(),
        failure: failure.to_owned(),
    }
}
