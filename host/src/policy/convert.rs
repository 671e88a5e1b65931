//! Between the model and the contract.

use std::time::Duration;

use crate::model::time::unix_ms;
use crate::model::view::PolicyView;
use crate::model::{FailureReason, RecoveryPolicy, RecoveryStatus, StreamMode};

use super::bindings::exports::reprieve::policy::recovery as answered;
use super::bindings::reprieve::policy::types;

/// The entry as the contract has it.
pub fn entry(view: PolicyView) -> types::DeadLetter {
    let PolicyView { entry, attributes } = view;
    types::DeadLetter {
        dead_letter_id: entry.dead_letter_id.to_string(),
        source_table: entry.source_table.name().to_owned(),
        source_id: entry.source_id.to_string(),
        stream_id: entry.stream().map(|id| id.to_string()),
        message_type: entry.message_type,
        destination: entry.destination,
        perspective_name: entry.perspective_name,
        failure_reason: reason(entry.failure_reason),
        error_text: entry.error_text,
        error_fingerprint: entry.error_fingerprint,
        attempts_when_dead_lettered: count(entry.attempts_when_dlq),
        dead_lettered_at: unix_ms(entry.dead_lettered_at),
        recovery_status: status(entry.recovery_status),
        recovery_attempts: count(entry.recovery_attempts),
        incarnation: count(entry.incarnation),
        last_recovery_at: entry.last_recovery_at.map(unix_ms),
        generation: entry.generation,
        retried_on_generations: entry.retried_on_generations,
        metadata: entry.metadata,
        attributes,
    }
}

/// A counter of the database, which has no unsigned numbers.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

const fn status(status: RecoveryStatus) -> types::RecoveryStatus {
    match status {
        RecoveryStatus::Pending => types::RecoveryStatus::Pending,
        RecoveryStatus::Recovering => types::RecoveryStatus::Recovering,
        RecoveryStatus::HoldForReview => types::RecoveryStatus::HoldForReview,
        RecoveryStatus::Recovered => types::RecoveryStatus::Recovered,
        RecoveryStatus::PermanentlyFailed => types::RecoveryStatus::PermanentlyFailed,
    }
}

const fn reason(FailureReason(number): FailureReason) -> types::FailureReason {
    match number {
        0 => types::FailureReason::NoReason,
        1 => types::FailureReason::TransportNotReady,
        2 => types::FailureReason::TransportException,
        3 => types::FailureReason::SerializationError,
        4 => types::FailureReason::ValidationError,
        5 => types::FailureReason::MaxAttemptsExceeded,
        6 => types::FailureReason::LeaseExpired,
        7 => types::FailureReason::EventStorageFailure,
        8 => types::FailureReason::Throttled,
        10 => types::FailureReason::SecurityContextEstablishmentFailure,
        11 => types::FailureReason::EmptyStreamId,
        12 => types::FailureReason::MessageBodyTooLarge,
        13 => types::FailureReason::BodyClaimProviderUnknown,
        14 => types::FailureReason::BodyClaimIntegrityFailure,
        15 => types::FailureReason::CompositeInnerEventLimitExceeded,
        16 => types::FailureReason::CompositeExpansionFailure,
        17 => types::FailureReason::BrokerDeadLetter,
        18 => types::FailureReason::PoisonRedeliveryLoop,
        99 => types::FailureReason::Unknown,
        other => types::FailureReason::Other(other),
    }
}

/// What `get-policy` answered, or what is wrong with it.
pub fn policy(answer: answered::RecoveryPolicy, name_chars: usize) -> Result<RecoveryPolicy, String> {
    let characters = answer.name.chars().take(name_chars.saturating_add(1)).count();
    if characters == 0 {
        return Err("get-policy answered with an empty name".to_owned());
    }
    if characters > name_chars {
        return Err(format!("get-policy answered with a name of more than {name_chars} characters"));
    }
    Ok(RecoveryPolicy {
        name: answer.name,
        max_recovery_attempts: answer.max_recovery_attempts,
        cooldown: Duration::from_millis(answer.cooldown),
        hold_for_review_after_exhaustion: answer.hold_for_review_after_exhaustion,
        delay_first_attempt: answer.delay_first_attempt,
    })
}

/// What `get-stream-mode` answered.
pub const fn stream_mode(answer: answered::StreamRecoveryMode) -> StreamMode {
    match answer {
        answered::StreamRecoveryMode::PerMessage => StreamMode::PerMessage,
        answered::StreamRecoveryMode::TailAware => StreamMode::TailAware,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_reason_has_its_own_case_and_others_keep_their_number() {
        for named in FailureReason::named() {
            assert!(!matches!(reason(named), types::FailureReason::Other(_)), "{named}");
        }
        for unnamed in [9, 19, 98, -1, i32::MAX] {
            assert!(matches!(reason(FailureReason(unnamed)), types::FailureReason::Other(number) if number == unnamed));
        }
    }
}
