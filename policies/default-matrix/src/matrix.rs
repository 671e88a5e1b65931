//! Rows, and which of them answers for a dead letter.

use std::collections::BTreeMap;

use crate::reason::Reason;

/// How often and how soon dead letters of one reason are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Shown in metrics, logs and recorded decisions.
    pub name: String,
    /// 0: never, unless an attempt is granted.
    pub max_recovery_attempts: u32,
    /// From one attempt to the next, in milliseconds.
    pub cooldown_ms: u64,
    /// When the attempts are spent: true holds the row for an operator, false gives it up.
    pub hold_for_review_after_exhaustion: bool,
    /// Whether the cooldown also passes before the first attempt.
    pub delay_first_attempt: bool,
}

/// A row for each reason that has one, and a row for all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    rows: BTreeMap<Reason, Row>,
    fallback: Row,
}

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

#[derive(Clone, Copy)]
enum Exhausted {
    Hold,
    GiveUp,
}

fn row(name: &str, max_recovery_attempts: u32, cooldown_ms: u64, exhausted: Exhausted) -> Row {
    Row {
        name: name.to_owned(),
        max_recovery_attempts,
        cooldown_ms,
        hold_for_review_after_exhaustion: matches!(exhausted, Exhausted::Hold),
        delay_first_attempt: false,
    }
}

impl Default for Matrix {
    /// The matrix without any settings.
    fn default() -> Self {
        use Exhausted::{GiveUp, Hold};
        let held = row("HoldForReview", 0, 0, Hold);
        let careful = Row { delay_first_attempt: true, ..row("ConservativeRetry", 1, 6 * HOUR_MS, Hold) };
        let rows = BTreeMap::from([
            (Reason::Throttled, row("AggressiveRetry", 3, 30 * MINUTE_MS, GiveUp)),
            (Reason::TransportException, row("MediumRetry", 3, HOUR_MS, GiveUp)),
            (Reason::LeaseExpired, row("AggressiveRetry", 5, 0, GiveUp)),
            (Reason::MaxAttemptsExceeded, careful),
            (Reason::EventStorageFailure, held.clone()),
            (Reason::ValidationError, held.clone()),
            (Reason::SerializationError, held.clone()),
            (Reason::TransportNotReady, row("MediumRetry", 3, 30 * MINUTE_MS, GiveUp)),
            // Often a fault of the build that received it, so it ends where the next build finds it.
            (Reason::BrokerDeadLetter, row("MediumRetry", 3, HOUR_MS, Hold)),
            // Recovering a poison loop feeds it.
            (Reason::PoisonRedeliveryLoop, held),
        ]);
        Self { rows, fallback: row("OneShotThenHold", 1, HOUR_MS, Hold) }
    }
}

impl Matrix {
    /// The row that answers for a reason: its own, else that of `Unknown`.
    #[must_use]
    pub fn row(&self, reason: Reason) -> &Row {
        self.rows.get(&reason).unwrap_or(&self.fallback)
    }

    /// Replaces or adds the row of a reason; that of `Unknown` is the fallback.
    pub fn set(&mut self, reason: Reason, row: Row) {
        if reason == Reason::Unknown {
            self.fallback = row;
        } else {
            self.rows.insert(reason, row);
        }
    }
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the contract")]
pub enum Status {
    Pending,
    Recovering,
    HoldForReview,
    Recovered,
    PermanentlyFailed,
}

/// Whether a dead letter of this status is tried at all.
#[must_use]
pub const fn should_recover(status: Status) -> bool {
    matches!(status, Status::Pending | Status::Recovering)
}

/// Whether a dead letter waits for the earlier ones of its stream: when it has one.
#[must_use]
pub const fn tail_aware(stream_id: Option<&str>) -> bool {
    stream_id.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_a_row_is_answered_by_unknown() {
        let matrix = Matrix::default();
        for reason in [Reason::None, Reason::EmptyStreamId, Reason::Other] {
            assert_eq!(matrix.row(reason), matrix.row(Reason::Unknown));
        }
        assert_eq!(matrix.row(Reason::Unknown).name, "OneShotThenHold");
    }

    #[test]
    fn only_max_attempts_exceeded_waits_before_the_first_attempt() {
        let matrix = Matrix::default();
        let delayed: Vec<_> = matrix.rows.iter().filter(|(_, row)| row.delay_first_attempt).collect();
        assert_eq!(delayed.len(), 1);
        assert!(matrix.row(Reason::MaxAttemptsExceeded).delay_first_attempt);
    }

    #[test]
    fn a_replaced_unknown_answers_for_every_reason_without_a_row() {
        let mut matrix = Matrix::default();
        matrix.set(Reason::Unknown, row("Patient", 7, 1, Exhausted::GiveUp));
        assert_eq!(matrix.row(Reason::Other).name, "Patient");
        assert_eq!(matrix.row(Reason::Throttled).name, "AggressiveRetry");
    }

    #[test]
    fn settled_and_held_rows_are_not_recovered() {
        assert!(should_recover(Status::Pending) && should_recover(Status::Recovering));
        for status in [Status::HoldForReview, Status::Recovered, Status::PermanentlyFailed] {
            assert!(!should_recover(status));
        }
    }

    #[test]
    fn a_row_is_tail_aware_when_it_has_a_stream() {
        assert!(tail_aware(Some("018f2b7c-0000-7000-8000-000000000001")));
        assert!(!tail_aware(None));
    }
}
