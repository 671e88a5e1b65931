//! What can happen.

use proptest::collection::vec;
use proptest::prelude::*;
use reprieve::store::OperatorVerb;

/// The messages that take part, numbered from 1.
pub const MESSAGES: u64 = 9;

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// An application gives this message up for this reason, if it is in its table.
    Die(u64, i32),
    /// Somebody puts this message into its table, if it is not there.
    Appear(u64),
    /// A host scans once, with batches of so many rows.
    Scan(u32),
    /// Two hosts scan at the same time until nothing is due, with batches of so many rows.
    TwoScan(u32),
    /// A host takes so many rows, counts their attempts, and dies.
    DieInMidBatch(u32),
    /// A host takes so many rows, and dies.
    DieWhileDeciding(u32),
    /// A new generation comes.
    Sweep(u8),
    /// An operator does something about the newest death of this message.
    Operate(OperatorVerb, u64),
    /// An application does.
    Call(Verb, u64),
    /// So many seconds pass.
    Pass(i64),
    /// The outbox refuses messages to the second destination, or takes them again.
    Refuse(bool),
}

/// What an application can do about a dead letter.
#[derive(Debug, Clone, Copy)]
pub enum Verb {
    /// Hold it.
    Hold,
    /// Give it up.
    GiveUp,
    /// Recover it itself, in whatever order.
    Recover,
    /// Put it off for so many seconds.
    Schedule(i64),
}

/// Whether held rows stop their stream, and what happens.
pub fn courses() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let message = 1..=MESSAGES;
    let verb = prop_oneof![
        3 => Just(OperatorVerb::Retry),
        1 => Just(OperatorVerb::Hold),
        1 => Just(OperatorVerb::HoldIndefinitely),
        1 => Just(OperatorVerb::GiveUp),
    ];
    let call =
        prop_oneof![Just(Verb::Hold), Just(Verb::GiveUp), Just(Verb::Recover), (0..4000_i64).prop_map(Verb::Schedule),];
    let reason = prop_oneof![4 => Just(8), 3 => Just(6), 1 => Just(5), 1 => Just(4)];
    let step = prop_oneof![
        20 => (message.clone(), reason).prop_map(|(message, reason)| Step::Die(message, reason)),
        1 => message.clone().prop_map(Step::Appear),
        6 => (1..10_u32).prop_map(Step::Scan),
        2 => (1..6_u32).prop_map(Step::TwoScan),
        1 => (1..4_u32).prop_map(Step::DieInMidBatch),
        1 => (1..4_u32).prop_map(Step::DieWhileDeciding),
        1 => (2..5_u8).prop_map(Step::Sweep),
        2 => (verb, message.clone()).prop_map(|(verb, message)| Step::Operate(verb, message)),
        4 => (call, message).prop_map(|(call, message)| Step::Call(call, message)),
        4 => (0..2500_i64).prop_map(Step::Pass),
        3 => any::<bool>().prop_map(Step::Refuse),
    ];
    (any::<bool>(), vec(step, 1..50))
}
