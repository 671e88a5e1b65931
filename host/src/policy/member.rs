//! One component of a chain.

use wasmtime::component::InstancePre;

use super::bindings::exports::reprieve::policy::{recovery, settings};
use super::shape::{Shape, World};
use super::source::Origin;
use super::state::GuestState;

/// A compiled and linked component with its settings.
pub struct Member {
    /// The policy's name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The SHA-256 of the component.
    pub sha256: String,
    /// The component's bytes.
    pub size: usize,
    /// A JSON object.
    pub settings: String,
    /// What it imports and exports.
    pub shape: Shape,
    /// The three questions.
    pub recovery: recovery::GuestIndices,
    /// The check of its settings, if it has one.
    pub validate: Option<settings::GuestIndices>,
    /// Ready to be instantiated.
    pub linked: InstancePre<GuestState>,
}

/// What there is to say about a member of a loaded chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberInfo {
    /// The policy's name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Which world of the contract it fits.
    pub world: World,
    /// The SHA-256 of the component, as hex digits.
    pub sha256: String,
    /// The SHA-256 over its component and settings and the chain behind it, as hex digits.
    pub digest: String,
    /// The component's bytes.
    pub size: usize,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
}

impl MemberInfo {
    /// What there is to say about a member with this digest.
    pub(super) fn of(member: &Member, digest: String) -> Self {
        Self {
            digest,
            name: member.name.clone(),
            origin: member.origin.clone(),
            world: member.shape.world,
            sha256: member.sha256.clone(),
            size: member.size,
            imports: member.shape.imports.clone(),
            exports: member.shape.exports.clone(),
        }
    }
}
