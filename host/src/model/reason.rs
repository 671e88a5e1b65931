//! Why a message failed for good.

use std::fmt;
use std::str::FromStr;

use super::names::{UnknownName, same_name, write_name};

/// Why a message was dead-lettered. The numbers are a contract with the applications; a number that has no name is
/// kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FailureReason(pub i32);

const NAMES: [(i32, &str); 19] = [
    (0, "None"),
    (1, "TransportNotReady"),
    (2, "TransportException"),
    (3, "SerializationError"),
    (4, "ValidationError"),
    (5, "MaxAttemptsExceeded"),
    (6, "LeaseExpired"),
    (7, "EventStorageFailure"),
    (8, "Throttled"),
    (10, "SecurityContextEstablishmentFailure"),
    (11, "EmptyStreamId"),
    (12, "MessageBodyTooLarge"),
    (13, "BodyClaimProviderUnknown"),
    (14, "BodyClaimIntegrityFailure"),
    (15, "CompositeInnerEventLimitExceeded"),
    (16, "CompositeExpansionFailure"),
    (17, "BrokerDeadLetter"),
    (18, "PoisonRedeliveryLoop"),
    (99, "Unknown"),
];

impl FailureReason {
    /// A message whose text is not what its type says.
    pub const SERIALIZATION_ERROR: Self = Self(3);
    /// A message that used up its attempts.
    pub const MAX_ATTEMPTS_EXCEEDED: Self = Self(5);
    /// An event that the event store did not give.
    pub const EVENT_STORAGE_FAILURE: Self = Self(7);
    /// A message whose reason was not recorded.
    pub const UNKNOWN: Self = Self(99);

    /// The reason's name, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// Every reason that has a name, in the order of its number.
    pub fn named() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(number, _)| Self(*number))
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write_name(f, name),
            None => write_name(f, &self.0.to_string()),
        }
    }
}

impl FromStr for FailureReason {
    type Err = UnknownName;

    /// Reads a name or a number.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if let Ok(number) = text.parse() {
            return Ok(Self(number));
        }
        NAMES.iter().find(|(_, name)| same_name(text, name)).map(|(number, _)| Self(*number)).ok_or_else(|| {
            UnknownName {
                what: "failure reason",
                value: text.to_owned(),
                expected: NAMES.iter().map(|(_, name)| *name).collect(),
            }
        })
    }
}
