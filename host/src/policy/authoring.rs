//! What authors of policies need whose compiler knows no components: bindings for C, and a component made of a core
//! module.

use std::io;
use std::path::{Path, PathBuf};

use wasmparser::{Parser, Validator, WasmFeatures};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_component::ComponentEncoder;

use super::read::{self, MAX_COMPONENT};
use super::shape::{CORE_MODULE, Shape, ShapeError, World, what_else};

/// The contract, as this host speaks it.
pub const CONTRACT: &str = include_str!("../../../wit/policy.wit");
/// The name that errors in the contract would have.
const CONTRACT_FILE: &str = "policy.wit";

/// Why there are no bindings, or no component.
#[derive(Debug, thiserror::Error)]
pub enum AuthoringError {
    /// The generator failed.
    #[error("no C bindings for world {world}: {reason}")]
    Bindings {
        /// The world.
        world: World,
        /// The generator's words.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read core module {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error("core module {} is larger than {} MiB", path.display(), MAX_COMPONENT >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to do.
    #[error("{} is a component already", path.display())]
    ComponentAlready {
        /// The file.
        path: PathBuf,
    },
    /// The file is no core module.
    #[error("{} is no WebAssembly core module: {reason}", path.display())]
    NoModule {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What it imports or exports is not what its bindings promise.
    #[error(
        "core module {} does not become a component: {reason}; is it a reactor, linked with the object file of its \
         bindings, and without WASI?", path.display()
    )]
    NoComponent {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The component is no policy.
    #[error("the component made of {} {reason}; was the object file of its bindings linked?", path.display())]
    NoPolicy {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        reason: ShapeError,
    },
}

/// A header, a source and an object file for a policy of that world in C, by their names.
///
/// # Errors
///
/// The generator fails.
pub fn c_bindings(world: World) -> Result<Vec<(String, Vec<u8>)>, AuthoringError> {
    let failed = |error| AuthoringError::Bindings { world, reason: format!("{error:#}") };
    let mut resolve = Resolve::default();
    let package = resolve.push_str(CONTRACT_FILE, CONTRACT).map_err(failed)?;
    let id = resolve.select_world(&[package], Some(world.name())).map_err(failed)?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, id, &mut files).map_err(failed)?;
    Ok(files.iter().map(|(name, content)| (name.to_owned(), content.to_owned())).collect())
}

/// The policy component that a core module holds, when it was linked with its bindings.
///
/// # Errors
///
/// The file cannot be read, is no core module, or becomes no policy.
pub fn componentize(core: &Path) -> Result<Vec<u8>, AuthoringError> {
    let path = || core.to_owned();
    let module = read::whole(core, MAX_COMPONENT).map_err(|source| AuthoringError::Read { path: path(), source })?;
    let module = module.ok_or_else(|| AuthoringError::TooLarge { path: path() })?;
    if Parser::is_component(&module) {
        return Err(AuthoringError::ComponentAlready { path: path() });
    }
    match what_else(&module) {
        Some(what) if !module.starts_with(CORE_MODULE) => {
            return Err(AuthoringError::NoModule { path: path(), reason: format!("it is {what}") });
        }
        Some(_) | None => {}
    }
    // The encoder takes it for granted that a module is valid.
    Validator::new_with_features(WasmFeatures::all())
        .validate_all(&module)
        .map_err(|error| AuthoringError::NoModule { path: path(), reason: error.to_string() })?;
    let component = ComponentEncoder::default().validate(true).module(&module).and_then(|encoder| encoder.encode());
    let component =
        component.map_err(|error| AuthoringError::NoComponent { path: path(), reason: format!("{error:#}") })?;
    Shape::read(&component).map_err(|reason| AuthoringError::NoPolicy { path: path(), reason })?;
    Ok(component)
}
