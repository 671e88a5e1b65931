//! Plain types and pure decisions: no clock, no I/O, no database, no WebAssembly.
//!
//! [`decision`] is the heart: what becomes of one dead letter, given what the policy answered.

pub mod answers;
pub mod chain;
pub mod dead_letter;
pub mod decision;
pub mod fingerprint;
pub mod ids;
pub mod json;
pub mod names;
pub mod notes;
pub mod policy_error;
pub mod reason;
pub mod settings;
pub mod source;
pub mod status;
pub mod text;
pub mod time;
pub mod timeline;
pub mod view;

pub use answers::{Answers, RecoveryPolicy, StreamMode};
pub use dead_letter::DeadLetter;
pub use policy_error::OnPolicyError;
pub use reason::FailureReason;
pub use source::SourceTable;
pub use status::{Deferral, Disposition, RecoveryStatus};
