//! How single values on the command line are read.

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::{RecoveryStatus, time};

/// The most rows that `list` prints at once.
pub const MAX_LIMIT: u32 = 10_000;

/// Reads `--limit`.
pub fn limit(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| format!("expected a whole number from 1 to {MAX_LIMIT}"))
}

/// Reads a time with its zone, at the stores' resolution, of those that dead letters have.
pub fn time(text: &str) -> Result<Timestamp, String> {
    let time = text.parse().ok().filter(|time| *time >= Timestamp::UNIX_EPOCH);
    time.map(time::stored).ok_or_else(|| {
        "expected a time with its zone, from 1970-01-01 to 9999-12-30, such as 2026-01-31T12:00:00Z or \
         2026-01-31T13:00:00+01:00"
            .to_owned()
    })
}

/// Reads an id.
pub fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "expected a UUID, such as 01934f2e-7c1a-7bbb-8000-1f2e3d4c5b6a".to_owned())
}

/// Reads a status by name or number.
pub fn status(text: &str) -> Result<RecoveryStatus, String> {
    match text.parse::<i64>() {
        Ok(number) => RecoveryStatus::try_from(number).map_err(|error| {
            format!("{error}; expected a name or a number from 0 to {}", RecoveryStatus::ALL.len() - 1)
        }),
        Err(_) => text.parse().map_err(|error: crate::model::names::UnknownName| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_outside_its_range_is_refused_with_the_range() {
        for wrong in ["0", "-1", "10001", "99999999999999999999", "ten", "", "1.5"] {
            assert!(limit(wrong).unwrap_err().contains("1 to 10000"), "{wrong:?}");
        }
        assert_eq!((limit("1"), limit("10000")), (Ok(1), Ok(10_000)));
    }

    #[test]
    fn a_time_needs_its_zone_and_is_cut_to_microseconds() {
        for wrong in ["2026-01-31T12:00:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "noon"] {
            assert!(time(wrong).unwrap_err().contains("from 1970-01-01 to 9999-12-30"), "{wrong:?}");
        }
        assert_eq!(time("2026-01-31T13:00:00.1234567+01:00"), time("2026-01-31T12:00:00.123456Z"));
    }

    #[test]
    fn a_status_is_read_by_name_in_any_writing_and_by_number() {
        let held = Ok(RecoveryStatus::HoldForReview);
        assert_eq!(
            (status("hold-for-review"), status("HoldForReview"), status("2")),
            (held.clone(), held.clone(), held)
        );
        assert!(status("held").unwrap_err().contains("HoldForReview"));
        assert!(status("7").unwrap_err().contains("0 to 4"));
    }
}
