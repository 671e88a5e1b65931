//! From what the files of a chain held to a checked chain.

use std::sync::Arc;

use wasmtime::component::Component;

use super::LoadError;
use super::bindings::exports::reprieve::policy::{recovery, settings};
use super::engine::Shared;
use super::failure::one_line;
use super::member::Member;
use super::read::{self, ReadMember};
use super::shape::Shape;
use super::source::{MemberSource, Origin};
use crate::model::chain::MAX_CHAIN;

/// Checks, compiles and links a chain. The default matrix is its last member when the last of the
/// configuration passes questions on.
///
/// # Errors
///
/// The first member that is unfit.
pub fn members(shared: &Shared, chain: Vec<ReadMember>) -> Result<Arc<[Member]>, LoadError> {
    if !(1..=MAX_CHAIN).contains(&chain.len()) {
        return Err(LoadError::Chain(chain.len()));
    }
    let mut members = chain.into_iter().map(|read| member(shared, read)).collect::<Result<Vec<_>, _>>()?;
    let asked = members.iter().position(|member| !member.shape.has_fallback());
    match asked {
        None => members.push(member(shared, read::member(MemberSource::new(Origin::Builtin))?)?),
        Some(last) => {
            for unused in members.iter().skip(last + 1) {
                tracing::warn!(policy = unused.name, "this member is never asked: the one before it passes nothing on");
            }
        }
    }
    Ok(members.into())
}

fn member(shared: &Shared, read: ReadMember) -> Result<Member, LoadError> {
    let ReadMember { origin, bytes, sha256, settings, settings_sha256: _ } = read;
    let name = origin.name();
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
