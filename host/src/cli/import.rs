//! `import`: dead letters from JSON lines, all of them or none.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::exit::Ended;
use super::import_lines::{self, Defaults, Letters};
use super::output::tell;
use super::program::Program;
use super::values;
use crate::store::{Import, StoreError};

/// How many skipped ids are told one by one.
const SKIPPED_TOLD: usize = 10;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "Lines of one stream that tell neither times nor ids are taken in the order of the file.\n\n\
    Example: reprieve import dead-letters.jsonl --generation shop-1.4.0")]
pub struct ImportArgs {
    /// JSON lines; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The build that they died under, where a line does not say
    #[arg(long, value_name = "TAG")]
    pub(super) generation: Option<String>,
    /// Stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    now: Option<Timestamp>,
}

/// Imports.
pub async fn run(args: &ImportArgs, program: &Program) -> anyhow::Result<Ended> {
    let store = program.store().await?;
    let generation = program.generation_tag().await?;
    let defaults = Defaults { generation: &generation, now: args.now.unwrap_or_else(Timestamp::now) };
    let letters = import_lines::read(lines(args)?, &defaults).with_context(|| {
        if from_stdin(args) { "standard input".to_owned() } else { args.file.display().to_string() }
    })?;
    let imported = store.import(&Import { rows: &letters.rows, now: args.now }).await;
    let imported = imported.map_err(|error| with_line(error, &letters))?;
    warn(&imported.skipped);
    let mut output = program.output();
    let document = json!({ "imported": imported.imported, "skipped": imported.skipped.len() });
    output.either(&document, |_| format!("{} imported, {} skipped", imported.imported, imported.skipped.len()))?;
    output.finish()?;
    Ok(Ended::Done)
}

fn from_stdin(args: &ImportArgs) -> bool {
    args.file.as_os_str() == "-"
}

/// An error that tells where in the file the row stands that is at fault.
fn with_line(error: StoreError, letters: &Letters) -> anyhow::Error {
    if let StoreError::BadRow { dead_letter_id, .. } = &error
        && let Some(line) = letters.line_of(*dead_letter_id)
    {
        return anyhow::Error::new(error).context(format!("nothing was imported: line {line} is bad"));
    }
    error.into()
}

fn lines(args: &ImportArgs) -> anyhow::Result<Box<dyn BufRead>> {
    if from_stdin(args) {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

fn warn(skipped: &[Uuid]) {
    for id in skipped.iter().take(SKIPPED_TOLD) {
        tell!("warning: {id} is in the store already and was skipped");
    }
    if let Some(more) = skipped.len().checked_sub(SKIPPED_TOLD).filter(|more| *more > 0) {
        tell!("warning: {more} more were skipped");
    }
}
