//! `migrate`: the schema.

use clap::Args;
use serde_json::json;

use super::exit::Ended;
use super::program::Program;

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve migrate --store postgres://app@db/shop")]
pub struct MigrateArgs {
    /// Replace functions of the contract's names that were not made by this program
    #[arg(long)]
    adopt: bool,
}

/// Migrates.
pub async fn run(args: &MigrateArgs, program: &Program) -> anyhow::Result<Ended> {
    let applied = program.new_store().await?.migrate(args.adopt).await?;
    let mut output = program.output();
    output.either(&json!({ "applied": applied }), |_| match applied.as_slice() {
        [] => "the schema is current".to_owned(),
        applied => applied.iter().map(|name| format!("applied {name}")).collect::<Vec<_>>().join("\n"),
    })?;
    output.finish()?;
    Ok(Ended::Done)
}
