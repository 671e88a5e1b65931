//! Reprieve recovers dead letters by policy.
//!
//! The map, in the order in which modules may import each other:
//!
//! - [`model`]: plain types and the pure decision about one dead letter.
//! - [`store`]: what is asked of a database, as a trait; PostgreSQL and SQLite behind it.
//! - [`policy`]: policies as WebAssembly components: engine, limits, loading.
//! - [`recovery`]: the loop, one scan, the sweep.
//! - [`perspective`]: feeding read models, for programs that link this crate.
//! - [`config`], [`telemetry`], [`http`], [`cli`]: the program around them.

pub mod cli;
pub mod config;
pub mod http;
pub mod model;
pub mod perspective;
pub mod policy;
pub mod recovery;
pub mod store;
pub mod telemetry;
