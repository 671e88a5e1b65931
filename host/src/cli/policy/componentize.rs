//! `policy componentize`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::policy::{self, Inspection, Origin};

/// Arguments of `policy componentize`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: reprieve policy componentize core.wasm -o policy.wasm")]
pub struct ComponentizeArgs {
    /// The core module, linked with the bindings of the contract
    #[arg(value_name = "CORE.wasm")]
    core: PathBuf,
    /// The policy component to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Makes a component of a core module and writes it, whole or not at all.
///
/// # Errors
///
/// The module cannot be read or becomes no policy, or the file cannot be written.
pub fn componentize(args: &ComponentizeArgs) -> anyhow::Result<Inspection> {
    let component = policy::componentize(&args.core)?;
    let output = &args.output;
    let mut part = output.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let written = fs::write(&part, component).and_then(|()| fs::rename(&part, output));
    if written.is_err() {
        // It says nothing more than what failed before.
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", output.display()))?;
    Ok(Inspection::of(&Origin::File(output.clone()))?)
}
