//! Whole scans: a store, a policy as a real component, and the decision between them.

mod attempts;
mod chains;
mod credits;
mod faults;
pub mod host;
mod hostile;
pub mod loops;
mod matrix;
mod network;
mod policies;
