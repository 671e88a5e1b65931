//! What scans add up to.

use std::ops::{Add, AddAssign};

use serde::Serialize;

/// What became of the rows of one scan, or of several.
///
/// Each scanned row counts once in `recovered` to `failed`; `policy_errors` tells beside that on how many the policy
/// failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ScanCounts {
    /// Rows that were looked at.
    pub scanned: u64,
    /// Back in their source table.
    pub recovered: u64,
    /// Held for review.
    pub held: u64,
    /// Given up.
    pub permanently_failed: u64,
    /// Waiting for a cooldown, or for another call of the policy.
    pub deferred: u64,
    /// Refused by the policy for now.
    pub skipped: u64,
    /// Waiting for an earlier row of their stream.
    pub blocked: u64,
    /// Attempts whose insert failed.
    pub failed: u64,
    /// Rows on which the policy failed.
    pub policy_errors: u64,
}

impl ScanCounts {
    /// Rows that were decided otherwise than skipped or blocked: what a scan's size is measured in.
    #[must_use]
    pub const fn decided(&self) -> u64 {
        self.recovered + self.held + self.permanently_failed + self.deferred + self.failed
    }
}

impl AddAssign for ScanCounts {
    fn add_assign(&mut self, other: Self) {
        self.scanned += other.scanned;
        self.recovered += other.recovered;
        self.held += other.held;
        self.permanently_failed += other.permanently_failed;
        self.deferred += other.deferred;
        self.skipped += other.skipped;
        self.blocked += other.blocked;
        self.failed += other.failed;
        self.policy_errors += other.policy_errors;
    }
}

impl Add for ScanCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}
