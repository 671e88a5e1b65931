//! Living the cases of a table with a policy.

use std::collections::HashMap;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::Value;

use super::Case;
use crate::cli::policy::eval::SCAN_INTERVAL;
use crate::model::Answers;
use crate::model::decision::Decision;
use crate::model::timeline::Timeline;
use crate::model::view::PolicyView;
use crate::policy::{LoadError, MemberSource, Policy, PolicyEngine, PolicyFailure, Session, SettingsSource};

/// What came of one step.
pub enum Tried {
    /// The policy answered.
    Answered(Answers, Decision),
    /// It did not; the case ends here.
    Failed(PolicyFailure),
    /// An attempt was to end that was not made; the case ends here.
    NoAttempt,
}

/// Why a policy is not tried with the settings of a case.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// It does not take them, in its words.
    Settings(String),
    /// It fails on the host's sample entries with them.
    Probe(String),
}

impl Refusal {
    /// What was refused.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::Probe(_) => "policy",
        }
    }

    /// Why.
    pub fn said(self) -> String {
        match self {
            Self::Settings(said) | Self::Probe(said) => said,
        }
    }
}

/// A policy with the settings of each case, loaded when a case first needs them.
pub struct Trials<'a> {
    engine: &'a PolicyEngine,
    source: MemberSource,
    /// By their settings.
    policies: HashMap<String, Result<Policy, Refusal>>,
    /// By settings and time.
    sessions: HashMap<(String, Timestamp), Session>,
}

impl<'a> Trials<'a> {
    /// Nothing is loaded yet.
    pub fn new(engine: &'a PolicyEngine, source: MemberSource) -> Self {
        Self { engine, source, policies: HashMap::new(), sessions: HashMap::new() }
    }

    /// Throws the instances away that answered so far.
    pub fn start_afresh(&mut self) {
        self.sessions.clear();
    }

    /// The policy as the command line has it.
    ///
    /// # Errors
    ///
    /// It is none, or refuses the settings of the command line.
    pub async fn policy(&mut self) -> anyhow::Result<Policy> {
        let policy = self.engine.load(vec![self.source.clone()]).await?;
        self.policies.insert(String::new(), Ok(policy.clone()));
        Ok(policy)
    }

    /// Lives a case as the worker would, with one instance for all cases of the same settings and time: what came of its
    /// steps, up to the one at which it ends. The inner error is that of a policy that refuses the case's settings.
    ///
    /// # Errors
    ///
    /// The file is no policy.
    pub async fn live(&mut self, case: &Case) -> anyhow::Result<Result<Vec<Tried>, Refusal>> {
        let key = case.settings.as_ref().map_or_else(String::new, Value::to_string);
        let policy = match self.with_settings(&key, case.settings.as_ref()).await? {
            Ok(policy) => policy,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut timeline = Timeline::new(case.entry.clone(), case.now, SCAN_INTERVAL);
        let mut tried = Vec::with_capacity(case.steps.len());
        for step in &case.steps {
            if step.attempt.is_some_and(|end| !timeline.attempt_ends(end)) {
                tried.push(Tried::NoAttempt);
                break;
            }
            timeline.pass(step.after);
            if let Some(generation) = &step.generation {
                timeline.sweep(generation);
            }
            if step.retry {
                timeline.retry();
            }
            let now = timeline.now();
            let session = self.sessions.entry((key.clone(), now)).or_insert_with(|| policy.session(now));
            let answer = session.ask(vec![PolicyView::of(timeline.entry())]).await.pop();
            match answer.context("the policy was not asked")? {
                Ok(answers) => {
                    let decision = timeline.decide(&answers);
                    tried.push(Tried::Answered(answers, decision));
                }
                Err(failure) => {
                    tried.push(Tried::Failed(failure));
                    break;
                }
            }
        }
        Ok(Ok(tried))
    }

    async fn with_settings(&mut self, key: &str, settings: Option<&Value>) -> anyhow::Result<Result<Policy, Refusal>> {
        if let Some(loaded) = self.policies.get(key) {
            return Ok(loaded.clone());
        }
        let mut source = self.source.clone();
        if let Some(settings) = settings {
            source.settings = SettingsSource::Given(settings.clone());
        }
        let loaded = match self.engine.load(vec![source]).await {
            Ok(policy) => Ok(policy),
            Err(error @ LoadError::Settings { .. }) => Err(Refusal::Settings(error.told())),
            Err(error @ LoadError::Probe { .. }) => Err(Refusal::Probe(error.told())),
            Err(error) => return Err(error.into()),
        };
        self.policies.insert(key.to_owned(), loaded.clone());
        Ok(loaded)
    }
}
