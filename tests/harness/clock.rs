//! Fixed times and ids: nothing in a test depends on when it runs.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// When every test begins: 2026-01-01T00:00:00Z.
pub const T0: i64 = 1_767_225_600;

/// So many seconds after the beginning.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(T0).unwrap() + SignedDuration::from_secs(seconds)
}

/// A time as both databases take it and as the harness gives it back.
pub fn time_text(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The `n`-th dead letter's id; ids are in the order of their numbers.
pub fn id(n: u64) -> Uuid {
    numbered(0x8000, n)
}

/// The `n`-th message's id in its source table.
pub fn source(n: u64) -> Uuid {
    numbered(0x9000, n)
}

/// The `n`-th stream's id.
pub fn stream(n: u64) -> Uuid {
    numbered(0xa000, n)
}

/// The `n`-th host or application instance.
pub fn instance(n: u64) -> Uuid {
    numbered(0xb000, n)
}

fn numbered(kind: u16, n: u64) -> Uuid {
    Uuid::parse_str(&format!("0190a000-0000-7000-{kind:04x}-{n:012x}")).unwrap()
}
