//! What a step of a drainer did.

use std::ops::AddAssign;

/// Numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Claimed.
    pub claimed: u64,
    /// Moved to the dead letters.
    pub moved: u64,
    /// Over the cap, but moved by somebody else.
    pub gone: u64,
    /// Applied; all but the lost ones are reported.
    pub applied: u64,
    /// Known to have been applied a moment ago: only reported.
    pub recent: u64,
    /// Failed; they wait for their backoff to pass.
    pub failed: u64,
    /// Left alone behind a failed one of their stream and perspective, or because the lease had ended.
    pub waiting: u64,
    /// Applied or failed, but another instance had taken the row over meanwhile: it is applied once more.
    pub lost: u64,
}

impl Drained {
    /// Whether any row is not what it was before: else the next step would find the same.
    #[must_use]
    pub const fn made_progress(&self) -> bool {
        self.moved + self.failed + (self.applied + self.recent).saturating_sub(self.lost) > 0
    }
}

impl AddAssign for Drained {
    fn add_assign(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.moved += other.moved;
        self.gone += other.gone;
        self.applied += other.applied;
        self.recent += other.recent;
        self.failed += other.failed;
        self.waiting += other.waiting;
        self.lost += other.lost;
    }
}
