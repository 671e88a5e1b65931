//! How the host is doing, as `/readyz` tells it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether changes by others are heard of at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerState {
    /// Signals are switched off, or nothing listens yet: only the probe and the backstop find work.
    #[default]
    Polling,
    /// Subscribed.
    Listening,
    /// The subscription was lost and is being re-established.
    Lost,
}

/// A policy that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedPolicy {
    /// Its name.
    pub name: String,
    /// SHA-256 over its component, its settings and the chain behind it, in hex.
    pub digest: String,
    /// Since when it is in use.
    pub since: Timestamp,
    /// SHA-256 of the component alone, in hex.
    pub sha256: String,
    /// Where the component comes from.
    pub source: String,
}

/// A policy file that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// SHA-256 of the file, in hex; `None` when it could not be read.
    pub digest: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// What is known now.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Since when the store cannot be reached, and what it said; `None` while it can.
    pub store_fault: Option<(Timestamp, String)>,
    /// Since when the policy fails on everything, and how; `None` while it answers.
    pub policy_fault: Option<(Timestamp, String)>,
    /// The subscription to signals.
    pub listener: ListenerState,
    /// When the last scan ended.
    pub last_scan: Option<Timestamp>,
    /// The policies in use, the one asked first in front.
    pub policies: Vec<LoadedPolicy>,
    /// What is refused now.
    pub rejected: Option<Rejected>,
}

/// The host's health, told by the worker and read by the HTTP endpoints. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<RwLock<Report>>);

impl Health {
    /// The store answered.
    pub fn store_ok(&self) {
        // Told after every call: most of the time there is nothing to write.
        if self.read().store_fault.is_some() {
            self.write().store_fault = None;
        }
    }

    /// The store cannot be reached; the first of several such reports says since when.
    pub fn store_failed(&self, now: Timestamp, problem: &str) {
        again(&mut self.write().store_fault, now, problem);
    }

    /// The policy fails on everything; the first of several such reports says since when.
    pub fn policy_failed(&self, now: Timestamp, problem: &str) {
        again(&mut self.write().policy_fault, now, problem);
    }

    /// The subscription to signals is in this state.
    pub fn listener(&self, state: ListenerState) {
        self.write().listener = state;
    }

    /// A scan ended well: store and policy did their part.
    pub fn scanned(&self, now: Timestamp) {
        let mut report = self.write();
        report.last_scan = Some(now);
        report.store_fault = None;
        report.policy_fault = None;
    }

    /// These policies are in use from now on; what those before failed on is forgotten. One that was in use already
    /// keeps its time.
    pub fn policies(&self, mut policies: Vec<LoadedPolicy>) {
        let mut report = self.write();
        for policy in &mut policies {
            let same = |former: &&LoadedPolicy| former.digest == policy.digest && former.source == policy.source;
            policy.since = report.policies.iter().find(same).map_or(policy.since, |former| former.since);
        }
        report.policies = policies;
        report.policy_fault = None;
    }

    /// What is refused now while the policies in use stay; none when what is configured is in use.
    pub fn rejected(&self, rejected: Option<Rejected>) {
        self.write().rejected = rejected;
    }

    /// What is known now.
    #[must_use]
    pub fn report(&self) -> Report {
        self.read().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Report> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Report> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn again(fault: &mut Option<(Timestamp, String)>, now: Timestamp, problem: &str) {
    let since = fault.as_ref().map_or(now, |(since, _)| *since);
    *fault = Some((since, problem.to_owned()));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn loaded(digest: &str, since: i64) -> LoadedPolicy {
        let (name, source) = ("p".to_owned(), "p.wasm".to_owned());
        LoadedPolicy { name, digest: digest.into(), since: at(since), sha256: "s".into(), source }
    }

    #[test]
    fn a_member_that_stays_in_use_keeps_its_time() {
        let health = Health::default();
        health.policies(vec![loaded("first", 1), loaded("second", 1)]);
        health.policies(vec![loaded("other", 5), loaded("second", 5)]);
        let since: Vec<_> = health.report().policies.into_iter().map(|policy| policy.since).collect();
        assert_eq!(since, [at(5), at(1)]);
    }

    #[test]
    fn a_store_that_stays_away_is_told_since_when_it_is() {
        let health = Health::default();
        health.store_failed(at(10), "refused");
        health.store_failed(at(20), "timed out");
        assert_eq!(health.report().store_fault, Some((at(10), "timed out".to_owned())));
        health.store_ok();
        assert_eq!(health.report().store_fault, None);
    }

    #[test]
    fn a_refused_file_leaves_the_policies_in_use() {
        let health = Health::default();
        let policy = loaded("d", 1);
        health.policies(vec![policy.clone()]);
        health.rejected(Some(Rejected { digest: None, at: at(2), reason: "no component".into() }));
        assert_eq!(health.report().policies, std::slice::from_ref(&policy));
        assert!(health.report().rejected.is_some());
    }
}
