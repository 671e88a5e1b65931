//! `policy bindings`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::whole_file;
use crate::policy::{World, c_bindings};

/// A language that bindings are made for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum BindingsLanguage {
    /// A header, a source file and an object file that holds the types
    C,
}

/// Arguments of `policy bindings`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: reprieve policy bindings --lang c --output gen")]
pub struct BindingsArgs {
    /// The language
    #[arg(long, value_name = "LANGUAGE")]
    lang: BindingsLanguage,
    /// The world of the contract that the policy is of: policy, policy-with-fallback or configurable-policy
    #[arg(long, value_name = "WORLD", default_value_t = World::PolicyWithFallback)]
    world: World,
    /// The folder to write them to; it is made when it is not there
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    output: PathBuf,
}

/// What was written.
#[derive(Debug, Serialize)]
pub struct Written {
    world: &'static str,
    files: Vec<PathBuf>,
}

/// Writes the bindings of the contract, over those that are there.
///
/// # Errors
///
/// A file cannot be written.
pub fn write(args: &BindingsArgs) -> anyhow::Result<Written> {
    let BindingsLanguage::C = args.lang;
    let folder = &args.output;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut files = Vec::new();
    for (name, content) in c_bindings(args.world)? {
        let file = folder.join(name);
        whole_file::write(&file, &content)?;
        files.push(file);
    }
    Ok(Written { world: args.world.name(), files })
}

/// For people.
pub fn text(written: &Written) -> String {
    let lines = written.files.iter().map(|file| format!("wrote {}", file.display()));
    lines.collect::<Vec<_>>().join("\n")
}
