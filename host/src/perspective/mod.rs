//! Feeding read models, for programs that link this crate: [`Drainer`] claims rows of `wh_perspective_events`, has
//! their events applied, and moves rows whose attempts are spent to the dead letters before anything is parsed.
//!
//! What is promised:
//!
//! - An event is applied **at least once** for each perspective: it is reported after it was applied, and a crash
//!   between the two repeats it. Read models take repeats.
//! - **In order within a stream and perspective**: no event is applied before all earlier ones were, once at least, or
//!   were moved to the dead letters. After a failure, the later events of the stream and perspective wait for its
//!   backoff to pass; other perspectives and streams go on.
//! - A row that is moved does not hold the rest of its stream up. When it is recovered, it is applied then, after
//!   events that came later: whoever needs them in order keeps the place of the last one applied.
//! - Attempts are counted by the store, when a row changes its owner. A row is moved when it has been claimed more often
//!   than allowed, so with a cap of 10 there are 10 attempts.
//!
//! [`Gate`] is the same check for whoever dispatches messages of the inbox or the outbox.

pub mod apply;
mod applying;
pub mod cooldown;
pub mod drained;
pub mod drainer;
pub mod gate;
pub mod options;

pub use apply::{Apply, ApplyError};
pub use cooldown::Cooldown;
pub use drained::Drained;
pub use drainer::Drainer;
pub use gate::{Filtered, Gate, Gated, Message};
pub use options::DrainerOptions;
