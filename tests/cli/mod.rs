//! The commands, through the program itself.

#[macro_use]
pub mod shop;

mod authoring;
mod benching;
mod changing;
mod demo;
mod deploying;
mod diffing;
mod diffing_files;
mod drainer;
mod guest_logs;
pub mod host;
mod importing;
mod listing;
mod many_hosts;
mod moving;
mod policies;
mod policy_purity;
mod policy_testing;
mod readme;
mod scanning;
mod service;
mod serving;
mod slow_policies;
mod swapping;
mod swapping_under_load;
mod usage;
