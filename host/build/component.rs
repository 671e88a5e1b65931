//! From a core module to a component.

use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use wit_component::ComponentEncoder;

/// Wraps the core module into a component, validates it and writes it.
///
/// # Errors
///
/// What is wrong with the module, or which file cannot be read or written.
pub fn write(core: &Path, component: &Path) -> Result<(), String> {
    let module = fs::read(core).map_err(|error| format!("cannot read {}: {error}", core.display()))?;
    let bytes = ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|encoder| encoder.encode())
        .map_err(|error| format!("{} does not become a component: {error:#}", core.display()))?;
    fs::write(component, bytes).map_err(|error| format!("cannot write {}: {error}", component.display()))
}

/// Puts a copy of a component where people look for it, whole or not at all, since other builds write it, too.
///
/// # Errors
///
/// Which file cannot be written.
pub fn show(component: &Path, shown: &Path) -> Result<(), String> {
    let part = shown.with_extension(format!("{}.part", std::process::id()));
    fs::copy(component, &part)
        // Older than any build: cargo takes a file that it watches and that is newer for a change.
        .and_then(|_| File::options().write(true).open(&part)?.set_modified(SystemTime::UNIX_EPOCH))
        .and_then(|()| fs::rename(&part, shown))
        .map_err(|error| format!("cannot write {}: {error}", shown.display()))
}
