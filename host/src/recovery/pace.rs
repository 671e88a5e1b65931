//! How many rows a claim may take at present.

use std::sync::atomic::{AtomicU32, Ordering};

/// Halved by each batch that the store could not work off, for example since it took longer than the server lets a
/// statement take; doubled again by each that went through. Shared by the lanes of a host.
#[derive(Debug)]
pub struct Pace(AtomicU32);

impl Default for Pace {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl Pace {
    /// The most rows of the next claim, of those that may be taken at all: one at least.
    pub(super) fn at_most(&self, rows: u32) -> u32 {
        self.0.load(Ordering::Relaxed).min(rows)
    }

    /// A batch of so many rows went through.
    pub(super) fn went_through(&self, rows: u32) {
        self.update(|most| if rows < most { most } else { most.saturating_mul(2) });
    }

    /// A batch of so many rows did not.
    pub(super) fn failed(&self, rows: u32) {
        self.update(|most| most.min(rows / 2).max(1));
    }

    fn update(&self, change: impl Fn(u32) -> u32) {
        // Never fails: the change is always made.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |most| Some(change(most)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_fails_halves_the_next_one_down_to_a_row() {
        let pace = Pace::default();
        assert_eq!(pace.at_most(200), 200);
        for expected in [100, 50, 25, 12, 6, 3, 1, 1] {
            pace.failed(pace.at_most(200));
            assert_eq!(pace.at_most(200), expected);
        }
    }

    #[test]
    fn each_batch_of_that_size_that_goes_through_doubles_the_next_one_up_to_what_may_be_taken() {
        let pace = Pace::default();
        pace.failed(7);
        for expected in [3, 6, 12, 24, 48, 96, 192, 200, 200] {
            assert_eq!(pace.at_most(200), expected);
            pace.went_through(expected);
        }
    }

    #[test]
    fn the_short_batch_at_the_end_of_the_queue_proves_nothing() {
        let pace = Pace::default();
        pace.failed(100);
        pace.went_through(3);
        assert_eq!(pace.at_most(200), 50);
    }
}
