//! The recovery worker: the loop, one scan, the sweep, streams, the registration of hosts, the retention of what is settled.
//!
//! A *scan* claims due rows, asks the policy about each, and carries out what [`crate::model::decision`] makes of the
//! answers. [`ask`] gets the answers, [`plan`] and [`planned`] are the pure middle of it, [`batch`] the protocol around one
//! claim, a pass what the lanes of a host share, [`scan`] what a scan adds up to, a drain scans until nothing is due, [`worker`] the loop that waits between them.

pub mod ask;
pub mod batch;
pub mod counts;
pub mod deferrals;
mod drain;
pub mod generation;
pub mod late;
pub mod lease;
pub mod options;
mod pace;
mod pass;
pub mod plan;
pub mod planned;
pub mod record;
mod registration;
pub mod report;
mod retention;
mod rota;
pub mod scan;
mod settling;
pub mod streams;
mod trail;
pub mod wait;
pub mod worker;

pub use counts::ScanCounts;
pub use deferrals::Deferrals;
pub use generation::Generation;
pub use options::RecoveryOptions;
pub use pace::Pace;
pub use registration::Whereabouts;
pub use rota::Rota;
pub use scan::{ScanError, Scanner};
pub use worker::Worker;
