//! How claims are made at present.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many rows a claim may take, and whether with whole streams. Shared by the lanes of a host.
#[derive(Debug)]
pub struct Pace {
    /// Halved by each batch that the store could not work off, for example since it took longer than the server lets a
    /// statement take; doubled again by each that went through.
    most: AtomicU32,
    whole_streams: AtomicBool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { most: AtomicU32::new(u32::MAX), whole_streams: AtomicBool::new(false) }
    }
}

impl Pace {
    /// The most rows of the next claim, of those that may be taken at all: one at least.
    pub(super) fn at_most(&self, rows: u32) -> u32 {
        self.most.load(Ordering::Relaxed).min(rows)
    }

    /// Whether the next claim takes whole streams.
    pub(super) fn whole_streams(&self) -> bool {
        self.whole_streams.load(Ordering::Relaxed)
    }

    /// Of `rows` that the policy answered about, so many keep the order of their streams.
    pub(super) fn answered(&self, in_order: usize, rows: usize) {
        if rows > 0 {
            self.whole_streams.store(2 * in_order > rows, Ordering::Relaxed);
        }
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
        let _ = self.most.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |most| Some(change(most)));
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
    fn whole_streams_are_claimed_while_the_policy_keeps_the_order_of_most_rows() {
        let pace = Pace::default();
        let after = |in_order, rows| {
            pace.answered(in_order, rows);
            pace.whole_streams()
        };
        assert!(!pace.whole_streams());
        assert_eq!([(1, 2), (2, 3), (0, 0), (1, 3)].map(|(n, rows)| after(n, rows)), [false, true, true, false]);
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
