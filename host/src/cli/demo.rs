//! `demo`: the whole story on an embedded store, for somebody who meets the program for the first time.
//!
//! Every number that it prints is read from the store.

mod backlog;
mod chapters;
mod decided;
mod folder;
mod story;

use clap::Args;

use super::exit::Ended;
use super::program::Program;
use folder::Folder;
use story::Story;

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Uses a temporary store that is removed at the end, unless --store names one.\n\n\
    Example: reprieve demo")]
pub struct DemoArgs {
    /// The policy component, or builtin:default-matrix
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<String>,
}

/// Tells the story.
pub async fn run(_args: &DemoArgs, program: &Program) -> anyhow::Result<Ended> {
    let policies = program.policies().await?;
    // Only the flag counts: a store named in the environment is likely one that people work with.
    let folder = if program.store_flag.is_none() { Some(Folder::temporary()?) } else { None };
    let store = match &folder {
        Some(folder) => program.open(&folder.store_url(), true).await?,
        None => program.new_store().await?,
    };
    store.migrate(false).await?;
    let scanner = program.scanner(store, policies, None).await?;
    scanner.store.become_recovering_host().await?;
    let mut story = Story::new(scanner, program.output());
    story.backlog().await?;
    story.the_policy_decides().await?;
    story.a_held_row().await?;
    story.a_recovered_row().await?;
    story.an_operator_speaks().await?;
    story.a_new_build().await?;
    story.the_end(folder.is_some()).await?;
    Ok(Ended::Done)
}
