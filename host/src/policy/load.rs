//! From files to a checked chain.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use wasmtime::component::Component;

use super::bindings::exports::reprieve::policy::{recovery, settings};
use super::digest;
use super::engine::Shared;
use super::failure::{PolicyFailure, one_line};
use super::member::Member;
use super::shape::{Shape, ShapeError};
use super::source::{MemberSource, Origin};
use crate::model::chain::{BUILTIN_DEFAULT_MATRIX, MAX_CHAIN};

/// The default matrix, as the build made it.
static DEFAULT_MATRIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/default-matrix.wasm"));
const BUILTIN: &str = "builtin:";
/// The largest component that is read.
pub const MAX_COMPONENT: u64 = 128 << 20;

/// Why a chain was not loaded. Nothing has changed because of it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no member, or there are too many.
    #[error("a policy chain of {0} members, allowed are 1 to {MAX_CHAIN}")]
    Chain(usize),
    /// A file cannot be read.
    #[error("cannot read policy {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file is too large.
    #[error("policy {} is larger than {} MiB", path.display(), MAX_COMPONENT >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file is not the one that the configuration pins.
    #[error("policy {origin} has the sha256 {found}, but the configuration pins {pinned}")]
    Pinned {
        /// Where it comes from.
        origin: Origin,
        /// The digest of the file.
        found: String,
        /// The digest that was asked for.
        pinned: String,
    },
    /// A file is no policy.
    #[error("policy {origin} {reason}")]
    Shape {
        /// Where it comes from.
        origin: Origin,
        /// What it is instead.
        reason: ShapeError,
    },
    /// A component does not compile, or its functions have other types than the contract's.
    #[error("policy {origin} does not fit: {reason}")]
    Unfit {
        /// Where it comes from.
        origin: Origin,
        /// What does not fit.
        reason: String,
    },
    /// Settings that are no JSON object, or that the policy refuses.
    #[error("settings of policy {member}: {reason}")]
    Settings {
        /// The policy's name.
        member: String,
        /// What is wrong with them, in the policy's own words.
        reason: String,
    },
    /// The policy failed on a sample entry, or on the check of its settings.
    #[error("the policy failed while it was tried, {asked}")]
    Probe {
        /// What it was asked.
        asked: &'static str,
        /// How it failed.
        #[source]
        failure: PolicyFailure,
    },
    /// The system has no thread left.
    #[error("cannot start a thread to load a policy on")]
    Thread(#[source] io::Error),
    /// Compiling ended without a result.
    #[error("loading the policy ended without a result")]
    Ended,
}

/// Reads, checks, compiles and links a chain. The default matrix is its last member when the last of the
/// configuration passes questions on.
///
/// # Errors
///
/// The first member that is unfit.
pub fn members(shared: &Shared, chain: Vec<MemberSource>) -> Result<Arc<[Member]>, LoadError> {
    if !(1..=MAX_CHAIN).contains(&chain.len()) {
        return Err(LoadError::Chain(chain.len()));
    }
    let mut members = chain.into_iter().map(|source| member(shared, source)).collect::<Result<Vec<_>, _>>()?;
    let asked = members.iter().position(|member| !member.shape.has_fallback());
    match asked {
        None => members.push(member(shared, MemberSource::new(Origin::Builtin))?),
        Some(last) => {
            for unused in members.iter().skip(last + 1) {
                tracing::warn!(policy = unused.name, "this member is never asked: the one before it passes nothing on");
            }
        }
    }
    Ok(members.into())
}

fn member(shared: &Shared, source: MemberSource) -> Result<Member, LoadError> {
    let MemberSource { origin, settings, sha256: pinned } = source;
    let name = origin.name();
    let settings = match settings {
        Value::Null => "{}".to_owned(),
        Value::Object(settings) => Value::Object(settings).to_string(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(LoadError::Settings { member: name, reason: "not a JSON object".to_owned() });
        }
    };
    let bytes = bytes(&origin)?;
    let sha256 = digest::of_bytes(&bytes);
    if let Some(pinned) = pinned.filter(|pinned| !pinned.eq_ignore_ascii_case(&sha256)) {
        return Err(LoadError::Pinned { origin, found: sha256, pinned });
    }
    let shape = Shape::read(&bytes).map_err(|reason| LoadError::Shape { origin: origin.clone(), reason })?;
    if settings != "{}" && !shape.can_read_settings() {
        tracing::warn!(policy = name, "this policy does not read settings: those given to it have no effect");
    }
    let unfit = |error: wasmtime::Error| LoadError::Unfit { origin: origin.clone(), reason: one_line(&error) };
    let component = compiled(shared, &origin, &bytes).map_err(unfit)?;
    within(shared, &component).map_err(|reason| LoadError::Unfit { origin: origin.clone(), reason })?;
    let linked = shared.linker.instantiate_pre(&component).map_err(unfit)?;
    let recovery = recovery::GuestIndices::new(&linked).map_err(unfit)?;
    let validate = settings::GuestIndices::new(&linked).ok();
    Ok(Member { name, sha256, size: bytes.len(), settings, shape, recovery, validate, linked, origin })
}

/// Compiles a component; the default matrix once for the engine, since every chain may end in it.
fn compiled(shared: &Shared, origin: &Origin, bytes: &[u8]) -> wasmtime::Result<Component> {
    if let (Origin::Builtin, Some(matrix)) = (origin, shared.default_matrix.get()) {
        return Ok(matrix.clone());
    }
    let component = Component::from_binary(&shared.engine, bytes)?;
    if *origin == Origin::Builtin {
        shared.default_matrix.get_or_init(|| component.clone());
    }
    Ok(component)
}

/// The bytes of a component.
///
/// # Errors
///
/// The file cannot be read, is no file or too large.
pub fn bytes(origin: &Origin) -> Result<Vec<u8>, LoadError> {
    match origin {
        Origin::Builtin => Ok(DEFAULT_MATRIX.to_vec()),
        Origin::File(path) => {
            let bytes = read(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
            bytes.ok_or_else(|| LoadError::TooLarge { path: path.clone() })
        }
    }
}

/// The whole file; `None` when it is too large.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Asked before it is opened: opening a pipe waits for its writer.
    let found = std::fs::metadata(path);
    if found.is_err() && path.to_string_lossy().starts_with(BUILTIN) {
        let problem = format!("no such policy is built in, only {BUILTIN_DEFAULT_MATRIX}");
        return Err(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    if !found?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_COMPONENT + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_COMPONENT).then_some(bytes))
}

/// Whether a component can be instantiated within the limits, as far as it says what it needs.
fn within(shared: &Shared, component: &Component) -> Result<(), String> {
    let limits = &shared.limits;
    let needed = component.resources_required().ok_or("it imports modules, whose needs are unknown")?;
    let pages = limits.memory_bytes as u64 / (64 << 10);
    for (what, needed, allowed) in [
        ("memories", u64::from(needed.num_memories), limits.memories as u64),
        ("tables", u64::from(needed.num_tables), limits.tables as u64),
        ("pages of memory at its start", needed.max_initial_memory_size.unwrap_or(0), pages),
        ("table elements at its start", needed.max_initial_table_size.unwrap_or(0), limits.table_elements as u64),
    ] {
        if needed > allowed {
            return Err(format!("it needs {needed} {what}, allowed are {allowed}"));
        }
    }
    Ok(())
}
