//! Passes over many rows, a chunk at a time, each chunk a transaction of its own.

use std::time::Duration;

use jiff::Timestamp;

/// Rows that are looked at in one transaction.
pub const CHUNK: u32 = 1000;

/// One chunk of a pass over the rows that a policy put off.
#[derive(Debug, Clone)]
pub struct ClearDeferrals<'a> {
    /// The digest of the policy in use, whose own deferrals stay.
    pub digest: &'a str,
    /// Whether rows are due, too, of which the policy is not known: a host died while it was deciding about them.
    pub unknown: bool,
    /// Go on after this place; `None` starts a pass.
    pub after: Option<&'a str>,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// How a chunk went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Rows that are due now.
    pub rows: u64,
    /// Where the pass goes on; `None` when it is at its end.
    pub next: Option<String>,
}

/// One chunk of a pass over the recorded decisions.
#[derive(Debug, Clone)]
pub struct Forget<'a> {
    /// Younger ones are kept.
    pub keep: Duration,
    /// Go on after this place; `None` starts a pass.
    pub after: Option<&'a str>,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// How a chunk went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Decisions that were deleted.
    pub decisions: u64,
    /// Where the pass goes on; `None` when it is at its end, or another host is at it.
    pub next: Option<String>,
}
