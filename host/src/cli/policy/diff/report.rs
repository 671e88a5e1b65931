//! What a comparison found, for machines.

use jiff::Timestamp;
use serde::Serialize;

use super::outcome::Difference;
use super::tally::{Further, Group, Tally};
use crate::policy::Policy;

/// A policy that took part.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) digest: String,
    pub(super) source: String,
}

impl Compared {
    fn of(policy: &Policy) -> Self {
        let source = policy.about().first().map_or_else(String::new, |first| first.origin.to_string());
        Self { name: policy.name().to_owned(), digest: policy.digest().to_owned(), source }
    }
}

/// Over what it was compared.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// The rows of a store.
    Store(String),
    /// The recorded decisions of a store.
    Recorded(String),
    /// A file of dead letters.
    Entries(String),
    /// A case table.
    Cases(String),
}

/// Rows on which a policy failed.
#[derive(Debug, Serialize)]
pub(super) struct Failed {
    pub(super) old: u64,
    pub(super) new: u64,
}

/// Rows that differ, by kind.
#[derive(Debug, Serialize)]
pub(super) struct ByKind {
    pub(super) decision: u64,
    pub(super) time: u64,
    pub(super) answers: u64,
}

/// What a comparison found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(super) old: Option<Compared>,
    pub(super) new: Compared,
    pub(super) over: Against,
    /// The time that counted, where there was one for all.
    pub(super) now: Option<Timestamp>,
    pub(super) compared: u64,
    pub(super) unreadable: u64,
    /// Of recorded decisions: how many OLD made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by_old: Option<u64>,
    pub(super) failed: Failed,
    /// How many differ, in whatever way.
    pub differ: u64,
    pub(super) by_kind: ByKind,
    pub(super) groups: Vec<Group>,
    pub(super) further: Vec<Further>,
}

impl Report {
    /// What was counted.
    pub fn new(old: Option<&Policy>, new: &Policy, over: Against, tally: Tally) -> Self {
        let of_kind = |kind| tally.by_kind.get(&kind).copied().unwrap_or(0);
        let by_kind = ByKind {
            decision: of_kind(Difference::Decision),
            time: of_kind(Difference::Time),
            answers: of_kind(Difference::Answers),
        };
        let failed = Failed { old: tally.old_fails, new: tally.new_fails };
        let (compared, unreadable, differ) = (tally.compared, tally.unreadable, tally.differing());
        let (groups, further) = tally.into_groups();
        Self {
            old: old.map(Compared::of),
            new: Compared::of(new),
            over,
            now: None,
            compared,
            unreadable,
            by_old: None,
            failed,
            differ,
            by_kind,
            groups,
            further,
        }
    }

    /// With the time that counted.
    pub fn at(self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self }
    }

    /// With how many of the recorded decisions OLD made.
    pub fn by_old(self, decisions: u64) -> Self {
        Self { by_old: Some(decisions), ..self }
    }
}
