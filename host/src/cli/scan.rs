//! `scan`: one cycle, or cycles until nothing is due; never a sweep.

use clap::Args;
use jiff::Timestamp;

use super::exit::Ended;
use super::program::Program;
use super::signals::Stops;
use super::values;
use crate::recovery::ScanCounts;

/// Arguments of `scan`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve scan --until-idle --now 2026-12-01T00:00:00Z")]
pub struct ScanArgs {
    /// Go on until nothing is due
    #[arg(long)]
    until_idle: bool,
    /// The policy component, or builtin:default-matrix
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<String>,
    /// The build that the messages' application runs now
    #[arg(long, value_name = "TAG")]
    pub(super) generation: Option<String>,
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<Timestamp>,
}

/// Scans.
pub async fn run(args: &ScanArgs, program: &Program) -> anyhow::Result<Ended> {
    program.recovery_enabled()?;
    let store = program.store().await?;
    let scanner = program.scanner(store, program.policies().await?, args.now).await?;
    scanner.store.become_recovering_host().await?;
    let stop = scanner.shutdown.clone();
    let mut stops = Stops::new();
    tokio::spawn(async move {
        stops.told().await;
        stop.cancel();
    });
    let counts = if args.until_idle { scanner.until_idle().await? } else { scanner.cycle().await?.counts };
    let mut output = program.output();
    output.either(&counts, text)?;
    output.finish()?;
    Ok(Ended::Done)
}

fn text(counts: &ScanCounts) -> String {
    let ScanCounts { scanned, recovered, held, permanently_failed, deferred, skipped, blocked, failed, policy_errors } =
        counts;
    format!(
        "{scanned} scanned: {recovered} recovered, {held} held, {permanently_failed} given up, {deferred} deferred, \
         {skipped} skipped, {blocked} blocked, {failed} failed; {policy_errors} policy errors"
    )
}
