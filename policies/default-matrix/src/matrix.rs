//! Rows, and which of them answers for a dead letter.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::reason::Reason;

/// How often and how soon dead letters of one reason are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Shown in metrics, logs and recorded decisions.
    pub name: Cow<'static, str>,
    /// 0: never, unless an attempt is granted.
    pub max_recovery_attempts: u32,
    /// From one attempt to the next, in milliseconds.
    pub cooldown_ms: u64,
    /// When the attempts are spent: true holds the row for an operator, false gives it up.
    pub hold_for_review_after_exhaustion: bool,
    /// Whether the cooldown also passes before the first attempt.
    pub delay_first_attempt: bool,
}

/// A row for each reason that has one, and a row for all others. Without settings it costs nothing to make: every
/// instance of the component makes one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matrix {
    changed: BTreeMap<Reason, Row>,
}

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

#[derive(Clone, Copy)]
enum Exhausted {
    Hold,
    GiveUp,
}

const fn row(name: &'static str, max_recovery_attempts: u32, cooldown_ms: u64, exhausted: Exhausted) -> Row {
    Row {
        name: Cow::Borrowed(name),
        max_recovery_attempts,
        cooldown_ms,
        hold_for_review_after_exhaustion: matches!(exhausted, Exhausted::Hold),
        delay_first_attempt: false,
    }
}

/// The row of `Unknown` without any settings.
const FALLBACK: Row = row("OneShotThenHold", 1, HOUR_MS, Exhausted::Hold);

/// The row of a reason without any settings, if it has one of its own.
fn unchanged(reason: Reason) -> Option<Row> {
    use Exhausted::{GiveUp, Hold};
    Some(match reason {
        Reason::Throttled => row("AggressiveRetry", 3, 30 * MINUTE_MS, GiveUp),
        Reason::TransportException => row("MediumRetry", 3, HOUR_MS, GiveUp),
        Reason::LeaseExpired => row("AggressiveRetry", 5, 0, GiveUp),
        Reason::MaxAttemptsExceeded => {
            Row { delay_first_attempt: true, ..row("ConservativeRetry", 1, 6 * HOUR_MS, Hold) }
        }
        Reason::TransportNotReady => row("MediumRetry", 3, 30 * MINUTE_MS, GiveUp),
        // Often a fault of the build that received it, so it ends where the next build finds it.
        Reason::BrokerDeadLetter => row("MediumRetry", 3, HOUR_MS, Hold),
        Reason::EventStorageFailure
        | Reason::ValidationError
        | Reason::SerializationError
        // Recovering a poison loop feeds it.
        | Reason::PoisonRedeliveryLoop => row("HoldForReview", 0, 0, Hold),
        Reason::Unknown
        | Reason::None
        | Reason::SecurityContextEstablishmentFailure
        | Reason::EmptyStreamId
        | Reason::MessageBodyTooLarge
        | Reason::BodyClaimProviderUnknown
        | Reason::BodyClaimIntegrityFailure
        | Reason::CompositeInnerEventLimitExceeded
        | Reason::CompositeExpansionFailure
        | Reason::Other => return None,
    })
}

impl Matrix {
    /// The row that answers for a reason: its own, else that of `Unknown`.
    #[must_use]
    pub fn row(&self, reason: Reason) -> Row {
        let changed = |reason| self.changed.get(&reason).cloned();
        changed(reason).or_else(|| unchanged(reason)).or_else(|| changed(Reason::Unknown)).unwrap_or(FALLBACK)
    }

    /// Replaces or adds the row of a reason; that of `Unknown` is the fallback.
    pub fn set(&mut self, reason: Reason, row: Row) {
        self.changed.insert(reason, row);
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
        assert!(matrix.row(Reason::MaxAttemptsExceeded).delay_first_attempt);
        for other in [Reason::Throttled, Reason::LeaseExpired, Reason::BrokerDeadLetter, Reason::Unknown, Reason::None]
        {
            assert!(!matrix.row(other).delay_first_attempt, "{other:?}");
        }
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
