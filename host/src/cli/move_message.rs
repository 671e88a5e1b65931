//! `move`: one row of a source table to the dead letters.

use std::ffi::OsString;

use clap::Args;
use jiff::Timestamp;
use uuid::Uuid;

use super::exit::Ended;
use super::program::Program;
use super::values;
use crate::model::ids::new_id;
use crate::model::{FailureReason, SourceTable};
use crate::store::Move;

/// Arguments of `move`.
#[derive(Debug, Args)]
#[command(after_help = "Prints the id of the dead letter, or null when the row is gone already.\n\n\
    Example: reprieve move --source-table wh_outbox --source-id 01934f2e-7c1a-7bbb-8000-1f2e3d4c5b6a --reason Throttled")]
pub struct MoveArgs {
    /// wh_outbox, wh_inbox or wh_perspective_events
    #[arg(long, value_name = "TABLE")]
    source_table: SourceTable,
    /// Its id there: message_id, or event_work_id of a perspective row
    #[arg(long, value_name = "ID", value_parser = values::id)]
    source_id: Uuid,
    /// Why it is given up, by name or number
    #[arg(long, value_name = "REASON", allow_negative_numbers = true)]
    reason: FailureReason,
    /// What went wrong; bytes that are no UTF-8 are marked
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    error: Option<OsString>,
    /// The build it died under
    #[arg(long, value_name = "TAG")]
    pub(super) generation: Option<String>,
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<Timestamp>,
}

/// Moves.
pub async fn run(args: &MoveArgs, program: &Program) -> anyhow::Result<Ended> {
    let request = Move {
        dead_letter_id: args.now.map_or_else(Uuid::now_v7, new_id),
        source_table: args.source_table,
        source_id: args.source_id,
        failure_reason: args.reason,
        error_text: args.error.as_ref().map(|text| text.to_string_lossy().into_owned()),
        instance_id: None,
        generation: program.generation_tag().await?,
        now: args.now,
    };
    let moved = program.store().await?.move_to_dead_letters(&request).await?;
    let mut output = program.output();
    output.either(&moved.map(|moved| moved.dead_letter_id), |id| {
        id.map_or_else(|| "null".to_owned(), |id| id.to_string())
    })?;
    output.finish()?;
    Ok(Ended::Done)
}
