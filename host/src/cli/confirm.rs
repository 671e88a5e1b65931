//! Asking before many rows are changed at once.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;

use super::output::tell;
use crate::store::OperatorVerb;

/// Tells how many rows a filter matches, and asks unless `yes`.
///
/// # Errors
///
/// When the answer is not yes, or nobody is there to be asked.
pub fn confirm(verb: OperatorVerb, count: u64, yes: bool) -> anyhow::Result<()> {
    let rows = if count == 1 { "dead letter" } else { "dead letters" };
    tell!("{count} {rows} match the filter");
    if yes || count == 0 {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        bail!("{} for a filter needs --yes, or a terminal to confirm on", verb.name());
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "{} all of them? [y/N] ", verb.name())?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}
