//! Where a dead letter stands.

use super::names::named_numbers;

named_numbers! {
    /// What has become of a dead letter.
    pub enum RecoveryStatus("recovery status") {
        /// Open: it is looked at when it falls due.
        Pending = 0 as "Pending",
        /// In a live batch. Shown, never stored by this host.
        Recovering = 1 as "Recovering",
        /// Waiting for an operator or for a new generation.
        HoldForReview = 2 as "HoldForReview",
        /// Back in its source table.
        Recovered = 3 as "Recovered",
        /// Given up: only an operator's retry brings it back.
        PermanentlyFailed = 4 as "PermanentlyFailed",
    }
}

named_numbers! {
    /// What an operator said about a dead letter.
    pub enum Disposition("operator disposition") {
        /// Nothing.
        None = 0 as "None",
        /// Try it now. Written by applications; the next scan takes it as one retry and sets it to `None`.
        RetryNow = 1 as "RetryNow",
        /// Hold it, whatever generation comes.
        HoldIndefinitely = 2 as "HoldIndefinitely",
        /// Give it up.
        MarkPermanentlyFailed = 3 as "MarkPermanentlyFailed",
    }
}

/// Why `next_recovery_at` lies ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deferral {
    /// The policy's cooldown has not passed.
    Cooldown,
    /// The policy said not to try it now.
    Skip,
    /// An earlier dead letter of its stream comes first.
    Stream,
    /// The policy failed on it.
    PolicyError,
    /// It could not be re-emitted.
    Failure,
    /// Somebody scheduled it.
    Operator,
}

impl Deferral {
    /// Every value.
    pub const ALL: [Self; 6] =
        [Self::Cooldown, Self::Skip, Self::Stream, Self::PolicyError, Self::Failure, Self::Operator];

    /// The text in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Skip => "skip",
            Self::Stream => "stream",
            Self::PolicyError => "policy-error",
            Self::Failure => "failure",
            Self::Operator => "operator",
        }
    }

    /// Reads the text in the database; `None` for a text that this version does not know.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deferral| deferral.name() == name)
    }
}
