//! `policy componentize`.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;

use crate::cli::whole_file;
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
    if fs::canonicalize(output).is_ok_and(|output| fs::canonicalize(&args.core).is_ok_and(|core| core == output)) {
        bail!("{} is the core module itself: name another file to write", output.display());
    }
    whole_file::write(output, &component)?;
    Ok(Inspection::of(&Origin::File(output.clone()))?)
}
