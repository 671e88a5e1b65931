//! The matrix as a component.

use std::sync::OnceLock;

use crate::matrix::{self, Matrix, Status};
use crate::reason::Reason;
use crate::settings;

#[allow(missing_docs, unsafe_code, clippy::allow_attributes_without_reason, reason = "generated from the contract")]
mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "configurable-policy" });
}

use bindings::exports::reprieve::policy::recovery::{DeadLetter, RecoveryPolicy, StreamRecoveryMode};
use bindings::exports::reprieve::policy::{recovery, settings as settings_interface};
use bindings::reprieve::policy::host;
use bindings::reprieve::policy::types::{FailureReason, RecoveryStatus};

struct Component;

/// The matrix with the operator's settings, read once per instance.
///
/// Settings that cannot be read trap: the host has them validated before it asks, so this is a host that did not.
fn configured() -> &'static Matrix {
    static MATRIX: OnceLock<Matrix> = OnceLock::new();
    MATRIX.get_or_init(|| match settings::configured(&host::settings()) {
        Ok(matrix) => matrix,
        Err(reason) => {
            host::log(host::LogLevel::Error, &reason);
            core::arch::wasm32::unreachable()
        }
    })
}

impl recovery::Guest for Component {
    fn get_policy(entry: DeadLetter) -> RecoveryPolicy {
        let row = configured().row(reason(entry.failure_reason));
        RecoveryPolicy {
            name: row.name.into_owned(),
            max_recovery_attempts: row.max_recovery_attempts,
            cooldown: row.cooldown_ms,
            hold_for_review_after_exhaustion: row.hold_for_review_after_exhaustion,
            delay_first_attempt: row.delay_first_attempt,
        }
    }

    fn get_stream_mode(entry: DeadLetter) -> StreamRecoveryMode {
        if matrix::tail_aware(entry.stream_id.as_deref()) {
            StreamRecoveryMode::TailAware
        } else {
            StreamRecoveryMode::PerMessage
        }
    }

    fn should_recover(entry: DeadLetter) -> bool {
        matrix::should_recover(match entry.recovery_status {
            RecoveryStatus::Pending => Status::Pending,
            RecoveryStatus::Recovering => Status::Recovering,
            RecoveryStatus::HoldForReview => Status::HoldForReview,
            RecoveryStatus::Recovered => Status::Recovered,
            RecoveryStatus::PermanentlyFailed => Status::PermanentlyFailed,
        })
    }
}

impl settings_interface::Guest for Component {
    fn validate(settings: String) -> Result<(), String> {
        settings::configured(&settings).map(drop)
    }
}

const fn reason(reason: FailureReason) -> Reason {
    match reason {
        FailureReason::NoReason => Reason::None,
        FailureReason::TransportNotReady => Reason::TransportNotReady,
        FailureReason::TransportException => Reason::TransportException,
        FailureReason::SerializationError => Reason::SerializationError,
        FailureReason::ValidationError => Reason::ValidationError,
        FailureReason::MaxAttemptsExceeded => Reason::MaxAttemptsExceeded,
        FailureReason::LeaseExpired => Reason::LeaseExpired,
        FailureReason::EventStorageFailure => Reason::EventStorageFailure,
        FailureReason::Throttled => Reason::Throttled,
        FailureReason::SecurityContextEstablishmentFailure => Reason::SecurityContextEstablishmentFailure,
        FailureReason::EmptyStreamId => Reason::EmptyStreamId,
        FailureReason::MessageBodyTooLarge => Reason::MessageBodyTooLarge,
        FailureReason::BodyClaimProviderUnknown => Reason::BodyClaimProviderUnknown,
        FailureReason::BodyClaimIntegrityFailure => Reason::BodyClaimIntegrityFailure,
        FailureReason::CompositeInnerEventLimitExceeded => Reason::CompositeInnerEventLimitExceeded,
        FailureReason::CompositeExpansionFailure => Reason::CompositeExpansionFailure,
        FailureReason::BrokerDeadLetter => Reason::BrokerDeadLetter,
        FailureReason::PoisonRedeliveryLoop => Reason::PoisonRedeliveryLoop,
        FailureReason::Unknown => Reason::Unknown,
        FailureReason::Other(_) => Reason::Other,
    }
}

#[allow(unsafe_code, reason = "the canonical ABI's exports are generated from the contract")]
mod exported {
    use super::{Component, bindings};

    bindings::export!(Component with_types_in bindings);
}
