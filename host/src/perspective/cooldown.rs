//! Events that were applied a moment ago and may come again because the report about them was lost.

use std::time::Duration;

use jiff::Timestamp;
use moka::sync::Cache;
use uuid::Uuid;

use crate::store::perspective::ClaimedEvent;

/// Remembers rows that were applied, for a limited time and a limited number of them. Clones share what they remember.
///
/// An entry holds for the claim that the row was applied under. A row that died and was recovered has been claimed anew
/// since, whoever moved and recovered it: a recovered row has no owner, and its next claim is a takeover. So it is never
/// taken for one that was applied, and no process has to tell another to forget something.
#[derive(Debug, Clone)]
pub struct Cooldown(Cache<Uuid, ClaimMark>);

/// What tells one claim of a row from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClaimMark {
    attempts: i32,
    claimed_at: Option<Timestamp>,
}

impl ClaimMark {
    const fn of(row: &ClaimedEvent) -> Self {
        Self { attempts: row.attempts, claimed_at: row.claimed_at }
    }
}

impl Cooldown {
    /// A cache for at most `entries` rows, each for this long.
    #[must_use]
    pub fn new(entries: u64, time: Duration) -> Self {
        Self(Cache::builder().max_capacity(entries).time_to_live(time).build())
    }

    /// Whether the row was applied a moment ago, under the claim that still stands.
    #[must_use]
    pub fn has_applied(&self, row: &ClaimedEvent) -> bool {
        !row.taken_over && self.0.get(&row.event_work_id) == Some(ClaimMark::of(row))
    }

    /// The row was applied.
    pub fn applied(&self, row: &ClaimedEvent) {
        self.0.insert(row.event_work_id, ClaimMark::of(row));
    }
}

impl Default for Cooldown {
    /// 100,000 rows, for half a minute.
    fn default() -> Self {
        Self::new(100_000, Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(attempts: i32, claimed_at: i64, taken_over: bool) -> ClaimedEvent {
        ClaimedEvent {
            event_work_id: Uuid::from_u128(1),
            stream_id: Uuid::from_u128(2),
            event_id: Uuid::from_u128(3),
            perspective_name: "totals".to_owned(),
            attempts,
            claimed_at: Timestamp::from_second(claimed_at).ok(),
            taken_over,
            event: None,
        }
    }

    #[test]
    fn a_row_that_is_still_held_is_known() {
        let cooldown = Cooldown::default();
        assert!(!cooldown.has_applied(&row(1, 10, false)));
        cooldown.applied(&row(1, 10, true));
        assert!(cooldown.has_applied(&row(1, 10, false)));
    }

    #[test]
    fn a_claim_that_took_the_row_over_is_never_known_even_at_the_same_moment() {
        let cooldown = Cooldown::default();
        cooldown.applied(&row(1, 10, true));
        assert!(!cooldown.has_applied(&row(1, 10, true)));
    }

    #[test]
    fn another_claim_is_not_known_even_when_its_answer_was_lost() {
        let cooldown = Cooldown::default();
        cooldown.applied(&row(1, 10, true));
        assert!(!cooldown.has_applied(&row(1, 11, false)), "recovered and claimed again by a call that was cut off");
        assert!(!cooldown.has_applied(&row(2, 10, false)));
    }

    #[test]
    fn entries_end_with_their_time_and_beyond_their_number() {
        let short = Cooldown::new(10, Duration::from_nanos(1));
        short.applied(&row(1, 10, true));
        assert!(!short.has_applied(&row(1, 10, false)));

        let small = Cooldown::new(5, Duration::from_secs(60));
        for id in 0..1000 {
            small.applied(&ClaimedEvent { event_work_id: Uuid::from_u128(id), ..row(1, 10, true) });
        }
        small.0.run_pending_tasks();
        assert!(small.0.entry_count() <= 5);
    }
}
