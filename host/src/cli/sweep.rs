//! `sweep`: the generation sweep, now.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::exit::{DoesNotHold, Ended};
use super::program::Program;
use super::values;
use crate::store::Sweep;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve sweep --generation shop-1.5.0")]
pub struct SweepArgs {
    /// The new build
    #[arg(long, value_name = "TAG")]
    pub(super) generation: Option<String>,
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<Timestamp>,
}

/// Sweeps.
pub async fn run(args: &SweepArgs, program: &Program) -> anyhow::Result<Ended> {
    program.recovery_enabled()?;
    let Some(generation) = program.generation().await?.tag() else {
        return Err(DoesNotHold("no generation is set, so nothing was swept: give --generation".to_owned()).into());
    };
    let stagger = program.config.recovery.generation_replay_stagger;
    let sweep = Sweep { generation: &generation, stagger, now: args.now };
    let scheduled = program.store().await?.sweep(&sweep).await?;
    let mut output = program.output();
    output.either(&json!({ "generation": &*generation, "scheduled": scheduled }), |_| {
        format!("{scheduled} dead letters get their attempt on {generation}")
    })?;
    output.finish()?;
    Ok(Ended::Done)
}
