//! Points in time, at the databases' resolution.

use std::time::Duration;

use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};

/// The time `after` later than `from`; the latest time there is when that lies beyond it.
#[must_use]
pub fn later(from: Timestamp, after: Duration) -> Timestamp {
    SignedDuration::try_from(after).ok().and_then(|after| from.checked_add(after).ok()).unwrap_or(Timestamp::MAX)
}

/// The time cut to whole microseconds, which is what both stores keep.
#[must_use]
pub fn stored(time: Timestamp) -> Timestamp {
    time.round(TimestampRound::new().smallest(Unit::Microsecond).mode(RoundMode::Floor)).unwrap_or(time)
}

/// Milliseconds since 1970, as policies see time; 0 for a time before that.
#[must_use]
pub fn unix_ms(time: Timestamp) -> u64 {
    u64::try_from(time.as_millisecond()).unwrap_or(0)
}
