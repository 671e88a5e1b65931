//! What a step of a host did, and what went wrong in it.

use std::fmt;

use reprieve::store::{Attempt, Settled};
use uuid::Uuid;

/// What goes wrong in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The host dies before its transaction is committed.
    DiesBefore,
    /// It dies after.
    DiesAfter,
    /// The store refuses the transaction, for no fault of the rows.
    Refused,
    /// The transaction is committed and the host is told that it was not.
    AnswerLost,
}

/// What a step did that others have to know.
#[derive(Debug, Clone)]
pub enum Done {
    /// Nothing of interest.
    Something,
    Claimed(Uuid),
    /// The work on these attempts may start.
    Began(Uuid, Vec<Attempt>),
    Settled(Uuid, Vec<Settled>),
    Rescued,
    Released(Uuid),
    Swept(u8),
    /// An application brought a message back itself.
    BroughtBack,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Something => f.write_str("done"),
            Self::Claimed(batch) => write!(f, "claimed as {:x}", batch.as_u128()),
            Self::Began(batch, attempts) => {
                let attempts = attempts.iter().map(|attempt| attempt.dead_letter_id);
                write!(f, "{:x} begun with {}", batch.as_u128(), ids(attempts))
            }
            Self::Settled(batch, settled) => {
                write!(f, "{:x} settled", batch.as_u128())?;
                settled.iter().try_for_each(|row| write!(f, ", {} {:?}", row.dead_letter_id.as_u128(), row.outcome))
            }
            Self::Rescued => f.write_str("rescued"),
            Self::Released(batch) => write!(f, "{:x} given back", batch.as_u128()),
            Self::Swept(generation) => write!(f, "swept for g{generation}"),
            Self::BroughtBack => f.write_str("brought back"),
        }
    }
}

/// Numbers of dead letters.
pub fn ids(ids: impl Iterator<Item = Uuid>) -> String {
    format!("{:?}", ids.map(|id| id.as_u128()).collect::<Vec<_>>())
}
