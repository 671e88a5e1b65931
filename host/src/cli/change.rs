//! `retry`, `hold` and `give-up`: what an operator says about dead letters.

use std::collections::HashSet;

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::confirm::confirm;
use super::exit::Ended;
use super::filter::FilterArgs;
use super::program::Program;
use super::values;
use crate::store::{ChangeOutcome, OperatorChange, OperatorVerb, SharedStore, Target};

const EXAMPLE: &str = "\
Examples:
  reprieve retry 01934f2e-7c1a-7bbb-8000-1f2e3d4c5b6a --note 'schema fixed'
  reprieve give-up --reason ValidationError --message-type 'Shop.Legacy.*' --yes";

/// Arguments of `retry` and `give-up`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ChangeArgs {
    /// The dead letters; or give a filter instead
    #[arg(value_name = "ID", value_parser = values::id)]
    ids: Vec<Uuid>,
    /// Change all rows of a filter without asking; else a y on standard input is waited for
    #[arg(long)]
    yes: bool,
    /// Who says so [default: the user of the operating system]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<Timestamp>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Arguments of `hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// Whatever generation comes, too
    #[arg(long)]
    indefinitely: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Retries.
pub async fn retry(args: &ChangeArgs, program: &Program) -> anyhow::Result<Ended> {
    change(OperatorVerb::Retry, args, program).await
}

/// Holds.
pub async fn hold(args: &HoldArgs, program: &Program) -> anyhow::Result<Ended> {
    let verb = if args.indefinitely { OperatorVerb::HoldIndefinitely } else { OperatorVerb::Hold };
    change(verb, &args.change, program).await
}

/// Gives up.
pub async fn give_up(args: &ChangeArgs, program: &Program) -> anyhow::Result<Ended> {
    change(OperatorVerb::GiveUp, args, program).await
}

async fn change(verb: OperatorVerb, args: &ChangeArgs, program: &Program) -> anyhow::Result<Ended> {
    let target = target(verb, args)?;
    let store = program.store().await?;
    if let Target::Filter(filter) = &target {
        confirm(verb, store.count(filter).await?, args.yes)?;
    }
    let outcomes = carry_out(verb, target, args, &store).await?;
    print(verb, &outcomes, program)?;
    let all_changed = !outcomes.is_empty() && outcomes.iter().all(|outcome| outcome.result.is_ok());
    Ok(if all_changed { Ended::Done } else { Ended::NotHeld })
}

fn target(verb: OperatorVerb, args: &ChangeArgs) -> anyhow::Result<Target> {
    let filter = args.filter.filter();
    match (args.ids.is_empty(), filter.is_empty()) {
        (true, true) => bail!("{} needs ids or a filter; an empty filter would mean every dead letter", verb.name()),
        (false, false) => bail!("{} takes ids or a filter, not both", verb.name()),
        (true, false) => Ok(Target::Filter(filter)),
        (false, true) => {
            let mut seen = HashSet::new();
            Ok(Target::Ids(args.ids.iter().copied().filter(|id| seen.insert(*id)).collect()))
        }
    }
}

async fn carry_out(
    verb: OperatorVerb,
    target: Target,
    args: &ChangeArgs,
    store: &SharedStore,
) -> anyhow::Result<Vec<ChangeOutcome>> {
    let actor = args.actor.clone().unwrap_or_else(|| whoami::username().unwrap_or_else(|_| "unknown".to_owned()));
    let change = OperatorChange { verb, target, actor: &actor, note: args.note.as_deref(), now: args.now };
    Ok(store.change(&change).await?)
}

fn print(verb: OperatorVerb, outcomes: &[ChangeOutcome], program: &Program) -> anyhow::Result<()> {
    let mut output = program.output();
    if output.json() {
        let changed = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
        let results: Vec<Value> = outcomes.iter().map(document).collect();
        let unchanged = outcomes.len() - changed;
        output.document(&json!({ "changed": changed, "unchanged": unchanged, "results": results }))?;
    } else {
        for outcome in outcomes {
            match outcome.result {
                Ok(()) => output.line(format!("{}  {}: done", outcome.dead_letter_id, verb.name()))?,
                Err(why) => output.line(format!("{}  not changed: {why}", outcome.dead_letter_id))?,
            }
        }
    }
    Ok(output.finish()?)
}

fn document(outcome: &ChangeOutcome) -> Value {
    let why = outcome.result.err().map(|why| why.to_string());
    json!({ "dead_letter_id": outcome.dead_letter_id, "changed": why.is_none(), "why_not": why })
}
