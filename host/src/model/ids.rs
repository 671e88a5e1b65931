//! New ids. Each has the time that it is given; the random numbers in them are the only ones in this module.

use jiff::Timestamp;
use uuid::{ClockSequence, ContextV7, NoContext, Uuid};

/// A new id (UUIDv7) whose time is `now`, to the millisecond. Ids of one millisecond are in no order.
#[must_use]
pub fn new_id(now: Timestamp) -> Uuid {
    id_of(now, NoContext)
}

/// New ids (UUIDv7) of one time that ascend: each is greater than those that were made before it.
#[derive(Debug)]
pub struct AscendingIds {
    now: Timestamp,
    counter: ContextV7,
}

impl AscendingIds {
    /// The ids of `now`, to the millisecond.
    #[must_use]
    pub const fn of(now: Timestamp) -> Self {
        Self { now, counter: ContextV7::new() }
    }

    /// The next one.
    pub fn next_id(&mut self) -> Uuid {
        id_of(self.now, &self.counter)
    }
}

fn id_of(now: Timestamp, counter: impl ClockSequence<Output = impl Into<u128>>) -> Uuid {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
    Uuid::new_v7(uuid::Timestamp::from_unix(counter, seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// The time of a UUIDv7, in milliseconds.
    fn unix_ms(id: Uuid) -> i64 {
        let (seconds, nanoseconds) = id.get_timestamp().unwrap().to_unix();
        i64::try_from(seconds).unwrap() * 1000 + i64::from(nanoseconds / 1_000_000)
    }

    #[test]
    fn ids_have_the_time_that_they_are_given() {
        for time in ["1970-01-01T00:00:00Z", "2026-01-01T12:34:56.789123Z", "9999-12-30T00:00:00Z"] {
            let now: Timestamp = time.parse().unwrap();
            for id in [new_id(now), AscendingIds::of(now).next_id()] {
                assert_eq!((id.get_version_num(), unix_ms(id)), (7, now.as_millisecond()), "{time}");
            }
        }
    }

    #[test]
    fn ids_of_one_time_ascend_and_those_of_others_are_other_ids() {
        let now = "2026-01-01T12:34:56.789123Z".parse().unwrap();
        let (mut one, mut other) = (AscendingIds::of(now), AscendingIds::of(now));
        let ids: Vec<_> = std::iter::repeat_with(|| one.next_id()).take(10_000).collect();
        assert!(ids.is_sorted_by(|id, next| id < next));
        assert!(!ids.contains(&other.next_id()));
    }
}
