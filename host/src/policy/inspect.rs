//! What can be said about a component without running it.

use serde::Serialize;

use super::shape::{Shape, VERSION};
use super::source::Origin;
use super::{LoadError, digest, read};

/// What a component is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The smallest world of the contract that it fits.
    pub world: &'static str,
    /// The version of the contract.
    pub version: &'static str,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// The tools that made it.
    pub producers: Vec<Producer>,
    /// The SHA-256 of the file, as hex digits.
    pub digest: String,
    /// Bytes.
    pub size: usize,
}

/// A tool that a component names as one of those that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Producer {
    /// What it did, such as `processed-by`.
    pub field: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Inspection {
    /// Reads a component; nothing of it is compiled or run.
    ///
    /// # Errors
    ///
    /// It cannot be read or is no policy.
    pub fn of(origin: &Origin) -> Result<Self, LoadError> {
        let bytes = read::bytes(origin)?;
        let shape = Shape::read(&bytes).map_err(|reason| LoadError::Shape { origin: origin.clone(), reason })?;
        let producer = |(field, name, version)| Producer { field, name, version };
        Ok(Self {
            world: shape.world.name(),
            version: VERSION,
            imports: shape.imports,
            exports: shape.exports,
            producers: shape.producers.into_iter().map(producer).collect(),
            digest: digest::of_bytes(&bytes),
            size: bytes.len(),
        })
    }
}
