//! Living the cases of a table with a policy.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

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

/// The most instances that are kept; each takes places of the pool.
const KEPT_INSTANCES: usize = 16;
/// How many entries an instance of another round is asked about before its answers count.
const ASKED_BEFORE: usize = 16;
/// How many entries are remembered for that: instances begin at different ones.
const REMEMBERED: usize = KEPT_INSTANCES + ASKED_BEFORE;

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
    /// By the policy's digest, which covers its settings, and time.
    sessions: HashMap<(String, Timestamp), Session>,
    /// Entries that were answered in this round.
    answered: Vec<PolicyView>,
    /// And in the round before.
    answered_before: Vec<PolicyView>,
}

impl<'a> Trials<'a> {
    /// Nothing is loaded yet.
    pub fn new(engine: &'a PolicyEngine, source: MemberSource) -> Self {
        Self {
            engine,
            source,
            policies: HashMap::new(),
            sessions: HashMap::new(),
            answered: Vec::new(),
            answered_before: Vec::new(),
        }
    }

    /// Starts another round: the instances that answered so far are thrown away, and each new one is first asked about
    /// some of the entries that were answered, so that a policy that remembers them shows.
    pub fn start_another_round(&mut self) {
        self.sessions.clear();
        self.answered_before = std::mem::take(&mut self.answered);
    }

    /// The policy as the command line has it.
    ///
    /// # Errors
    ///
    /// It is none, or refuses the settings of the command line.
    pub async fn policy(&mut self) -> anyhow::Result<Policy> {
        let policy = self.engine.load(vec![self.source.clone()]).await?;
        self.policies.insert(self.key(None), Ok(policy.clone()));
        Ok(policy)
    }

    /// Lives a case as the worker would, with one instance for cases of the same settings and time, as long as it is
    /// kept: what came of its steps, up to the one at which it ends. The inner error is that of a policy that refuses
    /// the case's settings.
    ///
    /// # Errors
    ///
    /// The file is no policy.
    pub async fn live(&mut self, case: &Case) -> anyhow::Result<Result<Vec<Tried>, Refusal>> {
        let policy = match self.with_settings(case.settings.as_ref()).await? {
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
            let view = PolicyView::of(timeline.entry());
            let answer = self.session(&policy, now).await.ask(vec![view.clone()]).await.pop();
            match answer.context("the policy was not asked")? {
                Ok(answers) => {
                    if self.answered.len() < REMEMBERED {
                        self.answered.push(view);
                    }
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

    async fn session(&mut self, policy: &Policy, now: Timestamp) -> &mut Session {
        let key = (policy.digest().to_owned(), now);
        if self.sessions.len() >= KEPT_INSTANCES && !self.sessions.contains_key(&key) {
            self.sessions.clear();
        }
        let others = self.sessions.len();
        match self.sessions.entry(key) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(free) => {
                let mut session = policy.session(now);
                let before = self.answered_before.iter().cycle().skip(others).take(ASKED_BEFORE);
                // Entries of other settings may fail here, which says nothing.
                session.ask(before.cloned().collect()).await;
                free.insert(session)
            }
        }
    }

    /// The settings as text: those of a case, else those of the command line, which may be none.
    fn key(&self, settings: Option<&Value>) -> String {
        match (settings, &self.source.settings) {
            (Some(settings), _) | (None, SettingsSource::Given(settings)) => settings.to_string(),
            (None, SettingsSource::File(_)) => String::new(),
        }
    }

    async fn with_settings(&mut self, settings: Option<&Value>) -> anyhow::Result<Result<Policy, Refusal>> {
        let key = self.key(settings);
        if let Some(loaded) = self.policies.get(&key) {
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
        self.policies.insert(key, loaded.clone());
        Ok(loaded)
    }
}
