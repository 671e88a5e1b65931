//! In-process totals, for tests and for `/readyz`.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What this process has done since it started; each number starts at 0 and only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Scans that ended, whatever they found.
    pub total_scans: u64,
    /// Dead letters that are back in their source table.
    pub total_recovered: u64,
    /// Dead letters held for review.
    pub total_held: u64,
    /// Dead letters given up.
    pub total_permanently_failed: u64,
    /// Dead letters that a generation sweep reached.
    pub total_generation_replays: u64,
}

/// The totals while they are counted.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub scans: AtomicU64,
    pub recovered: AtomicU64,
    pub held: AtomicU64,
    pub permanently_failed: AtomicU64,
    pub generation_replays: AtomicU64,
}

impl Counting {
    pub(super) fn read(&self) -> Totals {
        Totals {
            total_scans: self.scans.load(Ordering::Relaxed),
            total_recovered: self.recovered.load(Ordering::Relaxed),
            total_held: self.held.load(Ordering::Relaxed),
            total_permanently_failed: self.permanently_failed.load(Ordering::Relaxed),
            total_generation_replays: self.generation_replays.load(Ordering::Relaxed),
        }
    }
}
