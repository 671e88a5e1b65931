//! How long recorded decisions are kept.

use std::time::Duration;

use jiff::Timestamp;

/// Decisions that are looked at in one transaction.
pub const CHUNK: u32 = 1000;

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
