//! Whole scans: a store, a policy as a real component, and the decision between them.

mod attempts;
mod chains;
mod credits;
mod faults;
pub mod host;
mod hostile;
pub mod loops;
mod matrix;
pub mod network;
mod policies;
mod refused;
mod streams;
mod streams_at_random;
mod streams_behind;
mod streams_due;
