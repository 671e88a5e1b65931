//! Commands about policies: `policy check`, `policy inspect`, `policy eval`.
//!
//! A file that is malformed or no policy ends them as malformed input does.

mod check;
mod eval;
mod inspect;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use crate::policy::{MemberSource, Origin};

use super::exit::Ended;
use super::program::Program;

/// What can be done with a policy file.
#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Load and try a policy as the host would, and say what it is
    Check(check::CheckArgs),
    /// Say what a policy file is, without running it
    Inspect(inspect::InspectArgs),
    /// Ask a policy about one dead letter
    Eval(eval::EvalArgs),
}

/// Does it.
///
/// # Errors
///
/// A file is malformed or no policy, the policy failed, or standard output cannot be written to.
pub async fn run(command: &PolicyCommand, program: &Program) -> anyhow::Result<Ended> {
    let mut output = program.output();
    match command {
        PolicyCommand::Check(args) => {
            let checked = check::check(args, &program.engine()?).await?;
            output.either(&checked, check::Checked::text)?;
        }
        PolicyCommand::Inspect(args) => output.either(&inspect::inspect(args)?, inspect::text)?,
        PolicyCommand::Eval(args) => output.document(&eval::eval(args, &program.engine()?).await?)?,
    }
    output.finish()?;
    Ok(Ended::Done)
}

/// One policy from the command line with its settings, if there is a file of them.
fn member(file: &Origin, settings: Option<&Path>) -> anyhow::Result<MemberSource> {
    let settings = match settings {
        None => Value::Null,
        Some(path) => {
            let text = read(path)?;
            let settings = serde_json::from_str(&text).with_context(|| format!("settings file {}", path.display()))?;
            match settings {
                Value::Object(_) => settings,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(anyhow!("settings file {} is not a JSON object", path.display()));
                }
            }
        }
    };
    Ok(MemberSource { settings, ..MemberSource::new(file.clone()) })
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// How the policy file is named on the command line.
#[derive(Debug, clap::Args)]
pub struct FileArg {
    /// The policy component, or builtin:default-matrix
    #[arg(value_name = "FILE")]
    file: Origin,
}

/// How its settings are named.
#[derive(Debug, clap::Args)]
pub struct SettingsArg {
    /// A file with the policy's settings, a JSON object
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}
