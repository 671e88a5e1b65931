//! `policy inspect`.

use crate::policy::Inspection;

use super::FileArg;
use super::check::listed;

/// Arguments of `policy inspect`.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    #[command(flatten)]
    file: FileArg,
}

/// Says what a policy file is. Nothing of it is compiled or run.
///
/// # Errors
///
/// It cannot be read or is no policy.
pub fn inspect(args: &InspectArgs) -> anyhow::Result<Inspection> {
    Ok(Inspection::of(&args.file.file)?)
}

/// An inspection for people.
#[must_use]
pub fn text(found: &Inspection) -> String {
    let mut lines = vec![
        format!("world    {} of reprieve:policy {}", found.world, found.version),
        format!("digest   {}", found.digest),
        format!("size     {} bytes", found.size),
        format!("imports  {}", listed(&found.imports)),
        format!("exports  {}", listed(&found.exports)),
    ];
    lines.extend(found.producers.iter().map(|tool| format!("{}  {} {}", tool.field, tool.name, tool.version)));
    lines.join("\n")
}
