//! What a program does with events.

use std::fmt;

use async_trait::async_trait;

use crate::model::FailureReason;
use crate::store::perspective::{ClaimedEvent, StoredEvent};

/// The read models of a program.
#[async_trait]
pub trait Apply: Send + Sync {
    /// What the text of an event becomes.
    type Event: Send + Sync;

    /// Parses an event: called once for each row that survived the gate, before the first row of the step is applied.
    ///
    /// # Errors
    ///
    /// The row counts as failed, and the later ones of its stream and perspective wait for it.
    fn deserialize(&self, event: &StoredEvent) -> Result<Self::Event, ApplyError>;

    /// Applies an event to the read model that the row names. Called in order within stream and perspective, one call
    /// at a time; again for the same row when it failed, when the program died before it could say that it was done,
    /// or when its lease lapsed meanwhile.
    ///
    /// # Errors
    ///
    /// The row counts as failed, and the later ones of its stream and perspective wait for it.
    async fn apply(&self, row: &ClaimedEvent, event: &Self::Event) -> Result<(), ApplyError>;
}

/// Why an event was not applied: recorded with its row, and what a dead letter of it is decided by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyError {
    /// What kind of failure it is.
    pub reason: FailureReason,
    /// What went wrong.
    pub problem: String,
}

impl ApplyError {
    /// A failure of this kind.
    #[must_use]
    pub fn new(reason: FailureReason, problem: impl fmt::Display) -> Self {
        Self { reason, problem: problem.to_string() }
    }

    /// An event whose text is not what its type says.
    #[must_use]
    pub fn unreadable(problem: impl fmt::Display) -> Self {
        Self::new(FailureReason::SERIALIZATION_ERROR, problem)
    }

    /// A failure whose kind is not known.
    #[must_use]
    pub fn other(problem: impl fmt::Display) -> Self {
        Self::new(FailureReason::UNKNOWN, problem)
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.problem)
    }
}

impl std::error::Error for ApplyError {}
