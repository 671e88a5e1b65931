//! What can happen.

use proptest::collection::vec;
use proptest::prelude::*;
use reprieve::store::OperatorVerb;

/// The messages that take part.
pub const MESSAGES: u64 = 5;

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// An application gives this message up, if it is in its table.
    Die(u64),
    /// Somebody puts this message into its table, if it is not there: a replay from elsewhere.
    Appear(u64),
    /// A host claims at most so many rows, if it is at none.
    Claim(u32),
    /// It decides: rows of the batch whose bit is set are recovered, the others wait.
    Begin(u32),
    /// It makes its attempts.
    Settle,
    /// It dies.
    Kill,
    /// Batches past their time are dissolved.
    Rescue,
    /// A new generation comes.
    Sweep(u8),
    /// An operator speaks about the newest death of this message.
    Operate(OperatorVerb, u64),
    /// An application recovers the newest death of this message itself.
    Recover(u64),
    /// So many seconds pass.
    Pass(i64),
    /// The outbox refuses messages to the second destination, or takes them again.
    Refuse(bool),
}

/// Sequences of steps in which everything comes about.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let message = 0..MESSAGES;
    let verb = prop_oneof![
        3 => Just(OperatorVerb::Retry),
        1 => Just(OperatorVerb::Hold),
        1 => Just(OperatorVerb::HoldIndefinitely),
        1 => Just(OperatorVerb::GiveUp),
    ];
    let step = prop_oneof![
        6 => message.clone().prop_map(Step::Die),
        1 => message.clone().prop_map(Step::Appear),
        6 => (1..4_u32).prop_map(Step::Claim),
        6 => any::<u32>().prop_map(Step::Begin),
        6 => Just(Step::Settle),
        1 => Just(Step::Kill),
        2 => Just(Step::Rescue),
        1 => (2..5_u8).prop_map(Step::Sweep),
        2 => (verb, message.clone()).prop_map(|(verb, message)| Step::Operate(verb, message)),
        1 => message.prop_map(Step::Recover),
        3 => (0..90_i64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Refuse),
    ];
    vec(step, 1..60)
}
