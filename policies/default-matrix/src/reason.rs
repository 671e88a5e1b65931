//! The failure reasons that the contract names.

use serde::Deserialize;

/// Why a message failed. [`Reason::Other`] stands for every number without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the contract")]
pub enum Reason {
    None,
    TransportNotReady,
    TransportException,
    SerializationError,
    ValidationError,
    MaxAttemptsExceeded,
    LeaseExpired,
    EventStorageFailure,
    Throttled,
    SecurityContextEstablishmentFailure,
    EmptyStreamId,
    MessageBodyTooLarge,
    BodyClaimProviderUnknown,
    BodyClaimIntegrityFailure,
    CompositeInnerEventLimitExceeded,
    CompositeExpansionFailure,
    BrokerDeadLetter,
    PoisonRedeliveryLoop,
    Unknown,
    /// A number that the contract does not name. No settings can be written for it.
    #[serde(skip)]
    Other,
}
