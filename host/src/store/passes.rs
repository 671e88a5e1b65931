//! Passes over many rows, a chunk at a time, each chunk a transaction of its own.

use std::time::Duration;

use jiff::Timestamp;

/// Rows that are looked at in one transaction: enough to be fast, few enough to hold nobody up.
pub const CHUNK: i32 = 1000;

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

/// One chunk of a pass over the dead letters or what was recorded of them.
#[derive(Debug, Clone)]
pub struct Forget<'a, K> {
    /// What is younger is kept.
    pub keep: K,
    /// Go on after this place; `None` starts a pass.
    pub after: Option<&'a str>,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// How long dead letters are kept once they are settled; `None` is for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepSettled {
    /// After their recovery.
    pub recovered: Option<Duration>,
    /// Permanently failed ones, after the last that is known of them: the death, an attempt or a recorded decision.
    pub permanently_failed: Option<Duration>,
}

/// How a chunk went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Rows that were deleted.
    pub rows: u64,
    /// Where the pass goes on; `None` when it is at its end, or another host is at it.
    pub next: Option<String>,
}
