//! Policies as WebAssembly components.
//!
//! A [`PolicyEngine`] compiles and checks the members of a chain into a [`Policy`]; a [`Session`] asks one about the
//! dead letters of one scan. What a guest can do is narrowed here: it sees one bounded entry at a time, the settings
//! and the scan's time; it has no files, network, environment or clock; its time, memory, stack, tables, instances,
//! answers and log are limited. A guest that breaks a limit or traps fails that entry and nothing else.
//!
//! A [`FileWatch`] tells when a chain's files may have changed, and a [`Reloader`] puts what they hold into the
//! [`LivePolicy`] once it passed every check.
//!
//! No other module names wasmtime.

mod authoring;
mod bindings;
mod cache;
mod chain;
mod convert;
mod digest;
mod engine;
mod failure;
mod guest_log;
mod host_imports;
mod inspect;
mod instance;
mod limits;
mod links;
mod live;
mod load;
mod load_error;
mod measure;
mod member;
#[allow(clippy::module_inception, reason = "the type is what the module is about")]
mod policy;
mod probe;
mod read;
mod reload;
mod session;
mod shape;
mod source;
mod state;
mod threads;
mod ticker;
mod usage;
mod wasi;
mod wasm_config;
mod watch;

pub use crate::model::chain::{BUILTIN_DEFAULT_MATRIX, MAX_CHAIN};
pub use crate::model::settings::SettingsSource;
pub use authoring::{AuthoringError, CONTRACT, c_bindings, componentize};
pub use cache::default_cache_dir;
pub use engine::{EngineError, EngineOptions, PolicyEngine};
pub use failure::{FailureKind, PolicyFailure};
pub use inspect::{Inspection, Producer};
pub use limits::{LimitError, Limits};
pub use live::{LivePolicy, PolicyChanges};
pub use load_error::LoadError;
pub use measure::Measured;
pub use member::MemberInfo;
pub use policy::Policy;
pub use probe::sample_entries;
pub use reload::{Refusal, Reload, Reloader};
pub use session::Session;
pub use shape::{VERSION, World};
pub use source::{MemberSource, Origin};
pub use watch::FileWatch;
