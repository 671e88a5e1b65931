//! Commands about policies: `policy new`, `policy bindings`, `policy componentize`, `policy check`, `policy inspect`,
//! `policy eval`, `policy test`, `policy bench`, `policy diff`, `policy status`.
//!
//! A file that is malformed or no policy ends them as malformed input does.

mod bench;
mod bindings;
mod cases;
mod check;
mod componentize;
mod diff;
mod eval;
mod inspect;
mod new;
mod status;
mod test;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::policy::{MemberSource, Origin, SettingsSource};

use super::exit::Ended;
use super::program::Program;

/// What can be done with a policy file.
#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    /// Make a project for a policy of one's own, which builds and passes its tests as it is
    New(new::NewArgs),
    /// Write what a compiler needs that knows no components
    Bindings(bindings::BindingsArgs),
    /// Make a policy of a core module that was linked with the bindings
    Componentize(componentize::ComponentizeArgs),
    /// Load and try a policy as the host would, and say what it is
    Check(check::CheckArgs),
    /// Say what a policy file is, without running it
    Inspect(inspect::InspectArgs),
    /// Ask a policy about one dead letter
    Eval(eval::EvalArgs),
    /// Try a policy on a table of cases
    Test(test::TestArgs),
    /// Measure what a policy costs, beside the default matrix
    Bench(bench::BenchArgs),
    /// Say which dead letters another policy would decide differently
    Diff(diff::DiffArgs),
    /// Say what a running host has loaded, and what it last refused
    Status(status::StatusArgs),
}

/// Does it.
///
/// # Errors
///
/// A file is malformed or no policy, the policy failed, or standard output cannot be written to.
pub async fn run(command: &PolicyCommand, program: &Program) -> anyhow::Result<Ended> {
    let mut output = program.output();
    match command {
        PolicyCommand::New(args) => output.either(&new::make(args)?, new::text)?,
        PolicyCommand::Bindings(args) => output.either(&bindings::write(args)?, bindings::text)?,
        PolicyCommand::Componentize(args) => output.either(&componentize::componentize(args)?, inspect::text)?,
        PolicyCommand::Check(args) => {
            let checked = check::check(args, program).await?;
            output.either(&checked, check::Checked::text)?;
        }
        PolicyCommand::Inspect(args) => output.either(&inspect::inspect(args)?, inspect::text)?,
        PolicyCommand::Test(args) => {
            let tested = test::test(args, &program.engine()?).await?;
            output.either(&tested, test::text)?;
            output.finish()?;
            return Ok(tested.ended());
        }
        PolicyCommand::Bench(args) => output.either(&bench::bench(args, program).await?, bench::text)?,
        PolicyCommand::Diff(args) => {
            let (report, ended) = diff::diff(args, program).await?;
            output.either(&report, diff::Report::text)?;
            output.finish()?;
            return Ok(ended);
        }
        PolicyCommand::Status(args) => {
            output.either(&status::status(args, program).await?, status::text)?;
        }
        PolicyCommand::Eval(args) => output.document(&eval::eval(args, &program.engine()?).await?)?,
    }
    output.finish()?;
    Ok(Ended::Done)
}

/// One policy from the command line with its settings, if there is a file of them.
fn member(file: &Origin, settings: Option<&Path>) -> MemberSource {
    let settings = settings.map(|path| SettingsSource::File(path.to_owned())).unwrap_or_default();
    MemberSource { settings, ..MemberSource::new(file.clone()) }
}

/// The largest entry or case table that is read.
const MAX_TEXT: u64 = 16 << 20;

fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {shown}"))?;
    file.take(MAX_TEXT + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    if bytes.len() as u64 > MAX_TEXT {
        bail!("{shown} is larger than {} MiB", MAX_TEXT >> 20);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().get(..valid).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow::anyhow!("{shown}, line {line}: byte {valid} of the file is no UTF-8")
    })
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
    /// A file with the policy's settings: a JSON object, or TOML when its name ends in .toml
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}
