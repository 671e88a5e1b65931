//! The tests of the whole program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, and says where"
)]

#[macro_use]
mod harness;

mod cli;
mod conformance;
mod faults;
mod fingerprints;
mod house;
mod perspective;
mod policy;
mod recovery;
mod simulation;
mod sql_functions;
