//! Points in time, at the databases' resolution.

use std::time::Duration;

use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};

/// What is said of a value that is no duration.
pub const NO_DURATION: &str = "is no duration; write it like 250ms, 30s, 10m or 6h";

/// The time `after` later than `from`; the latest time there is when that lies beyond it.
#[must_use]
pub fn later(from: Timestamp, after: Duration) -> Timestamp {
    SignedDuration::try_from(after).ok().and_then(|after| from.checked_add(after).ok()).unwrap_or(Timestamp::MAX)
}

/// Reads a duration as people write it, such as `30m` or `1h 30m`; 0 needs no unit.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_duration(text: &str) -> Result<Duration, &'static str> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration: SignedDuration = text.parse().map_err(|_| NO_DURATION)?;
    Duration::try_from(duration).map_err(|_| "is negative")
}

/// A duration as [`read_duration`] reads it.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| format!("{duration:?}"), |duration| format!("{duration:#}"))
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
