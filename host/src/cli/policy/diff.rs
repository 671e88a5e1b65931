//! `policy diff`: which dead letters another policy would decide differently.

mod lines;
mod outcome;
mod progress;
mod recorded;
mod report;
mod sides;
mod stored;
mod tables;
mod tally;
mod text;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use jiff::Timestamp;

use self::report::Against;
pub use self::report::Report;
use self::sides::{Side, Sides};
use self::tally::Tally;
use super::cases::{self, trials::Trials};
use super::{member, read};
use crate::cli::exit::Ended;
use crate::cli::program::Program;
use crate::cli::values;
use crate::model::{DeadLetter, RecoveryStatus};
use crate::policy::{MemberSource, Origin, Policy, PolicyEngine};

/// Rows that are read and asked about at once. What they hold together bounds the memory of a comparison.
const PAGE: u32 = 256;

const AFTER_HELP: &str = "\
Without --cases, --entries or --recorded, the open rows of the store are compared: pending, recovering and held ones. \
The store is only read.

A row differs when something else would be done with it now (decision), when it would wait until another time (time), or \
when the policies answer otherwise although the same is done now (answers). Any of these is exit 1.

Examples:
  reprieve policy diff builtin:default-matrix target/policies/inventory.wasm --since 2026-01-01T00:00:00Z
  reprieve policy diff builtin:default-matrix builtin:default-matrix --new-settings settings.toml
  reprieve policy diff inventory.wasm --recorded";

/// Arguments of `policy diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct DiffArgs {
    /// The policy to compare with: a component, or builtin:default-matrix
    #[arg(value_name = "OLD")]
    old: Origin,
    /// The policy that may take its place; with --recorded, one policy alone is this one
    #[arg(value_name = "NEW")]
    new: Option<Origin>,
    /// Settings of OLD: a JSON object, or TOML when its name ends in .toml
    #[arg(long, value_name = "FILE")]
    old_settings: Option<PathBuf>,
    /// Settings of NEW
    #[arg(long, value_name = "FILE")]
    new_settings: Option<PathBuf>,
    /// Compare over the cases of a table (TOML), whatever they expect
    #[arg(long, value_name = "FILE", conflicts_with = "entries")]
    cases: Option<PathBuf>,
    /// Compare over dead letters as JSON lines, as `list --json` prints and `import` takes them; - is standard input
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Judge NEW against the recorded decisions of the store, at the times at which they were made
    #[arg(long, conflicts_with_all = ["cases", "entries", "now"])]
    recorded: bool,
    /// Only what died at this time or later; with --recorded, what was decided
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_negative_numbers = true)]
    since: Option<Timestamp>,
    /// Only dead letters of this status; may be given more than once. With --recorded, the status when it was decided
    #[arg(long, value_name = "STATUS", value_parser = values::status, allow_negative_numbers = true)]
    status: Vec<RecoveryStatus>,
    /// Exit 0 also when something differs
    #[arg(long)]
    exit_zero: bool,
    /// The time that stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_negative_numbers = true)]
    now: Option<Timestamp>,
}

/// Which dead letters are compared.
struct Picked {
    since: Option<Timestamp>,
    /// Empty: whatever is usual for where they come from.
    statuses: Vec<RecoveryStatus>,
}

impl Picked {
    fn takes(&self, entry: &DeadLetter) -> bool {
        self.has_status(entry) && self.since.is_none_or(|since| entry.dead_lettered_at >= since)
    }

    fn has_status(&self, entry: &DeadLetter) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&entry.recovery_status)
    }
}

/// Compares.
///
/// # Errors
///
/// A policy, table or line is malformed, or the store cannot be read.
pub async fn diff(args: &DiffArgs, program: &Program) -> anyhow::Result<(Report, Ended)> {
    let picked = Picked { since: args.since, statuses: args.status.clone() };
    if (args.cases.is_some() || args.entries.is_some()) && program.store_flag.is_some() {
        bail!("--store and a file are given: compare over one of them, and leave out --store, --cases or --entries");
    }
    let report = if args.recorded {
        over_records(args, &picked, program).await?
    } else if let Some(file) = &args.cases {
        over_cases(args, &picked, &cases::read(file, &read(file)?, args.now.unwrap_or_else(Timestamp::now))?, program)
            .await?
    } else {
        over_rows(args, &picked, program).await?
    };
    let ended = if report.differ > 0 && !args.exit_zero { Ended::NotHeld } else { Ended::Done };
    Ok((report, ended))
}

impl DiffArgs {
    fn old_source(&self) -> MemberSource {
        member(&self.old, self.old_settings.as_deref())
    }

    fn new_source(&self) -> anyhow::Result<MemberSource> {
        let Some(new) = &self.new else {
            bail!("one policy is given: name OLD and NEW; with --recorded, NEW alone will do");
        };
        Ok(member(new, self.new_settings.as_deref()))
    }
}

async fn both(args: &DiffArgs, engine: &PolicyEngine) -> anyhow::Result<(Policy, Policy)> {
    let new = args.new_source()?;
    let load = async |source| engine.load(vec![source]).await;
    Ok(tokio::try_join!(load(args.old_source()), load(new))?)
}

async fn over_rows(args: &DiffArgs, picked: &Picked, program: &Program) -> anyhow::Result<Report> {
    let (old, new) = both(args, &program.engine()?).await?;
    let mut sides = Sides { old: Side::new(old.clone()), new: Side::new(new.clone()) };
    let mut tally = Tally::default();
    let (against, now) = match &args.entries {
        Some(file) => {
            let now = args.now.unwrap_or_else(Timestamp::now);
            let compared = lines::compare(lines_of(file)?, picked, now, &mut sides, &mut tally).await;
            compared.with_context(|| name_of(file))?;
            (Against::Entries(name_of(file)), now)
        }
        None => {
            let store = program.store_to_read().await?;
            let now = stored::compare(&store, picked, args.now, &mut sides, &mut tally).await?;
            (Against::Store(program.store_name()), now)
        }
    };
    Ok(Report::new(Some(&old), &new, against, tally).at(now))
}

async fn over_cases(
    args: &DiffArgs,
    picked: &Picked,
    cases: &[cases::Case],
    program: &Program,
) -> anyhow::Result<Report> {
    let engine = program.engine()?;
    let (mut old, mut new) = (Trials::new(&engine, args.old_source()), Trials::new(&engine, args.new_source()?));
    let (old_policy, new_policy) = (old.policy().await?, new.policy().await?);
    let mut tally = Tally::default();
    tables::compare(cases, picked, &mut old, &mut new, &mut tally).await?;
    let against = Against::Cases(args.cases.as_deref().map(name_of).unwrap_or_default());
    Ok(Report::new(Some(&old_policy), &new_policy, against, tally))
}

async fn over_records(args: &DiffArgs, picked: &Picked, program: &Program) -> anyhow::Result<Report> {
    let engine = program.engine()?;
    let (old, new) = match &args.new {
        Some(_) => {
            let (old, new) = both(args, &engine).await?;
            (Some(old), new)
        }
        None if args.old_settings.is_some() => bail!("--old-settings are given without OLD: name OLD and NEW"),
        None => (None, engine.load(vec![member(&args.old, args.new_settings.as_deref())]).await?),
    };
    let store = program.store_to_read().await?;
    let (mut side, mut tally) = (Side::new(new.clone()), Tally::default());
    let digest = old.as_ref().map(Policy::digest);
    let by_old = recorded::compare(&store, picked, digest, &mut side, &mut tally).await?;
    let report = Report::new(old.as_ref(), &new, Against::Recorded(program.store_name()), tally);
    Ok(if old.is_some() { report.by_old(by_old) } else { report })
}

fn name_of(file: &std::path::Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

fn lines_of(file: &std::path::Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}
