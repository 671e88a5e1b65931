//! `show`: one dead letter with everything known about it.

mod document;
mod text;

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use super::exit::{DoesNotHold, Ended};
use super::program::Program;
use super::values;
use crate::store::Row;

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve show 01934f2e-7c1a-7bbb-8000-1f2e3d4c5b6a --json")]
pub struct ShowArgs {
    /// The dead letter
    #[arg(value_name = "ID", value_parser = values::id)]
    id: Uuid,
}

/// Shows.
pub async fn run(args: &ShowArgs, program: &Program) -> anyhow::Result<Ended> {
    let store = program.store().await?;
    let Some(whole) = store.show(args.id).await? else {
        return Err(DoesNotHold(format!("no dead letter {}", args.id)).into());
    };
    let waits_for = store.waits_for(&[args.id]).await?.remove(&args.id);
    let mut output = program.output();
    match &whole.row {
        Row::Unreadable { dead_letter_id, problem } => {
            let document = json!({ "dead_letter_id": dead_letter_id, "unreadable": problem });
            output.either(&document, |_| text::unreadable(dead_letter_id, problem))?;
        }
        Row::Readable(entry) if output.json() => output.line(document::of(entry, &whole, waits_for)?)?,
        Row::Readable(entry) => {
            for line in text::lines(entry, &whole, waits_for) {
                output.line(line)?;
            }
        }
    }
    output.finish()?;
    Ok(Ended::Done)
}
