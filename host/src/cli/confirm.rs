//! Asking before many rows are changed at once.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use anyhow::bail;

use super::exit::DoesNotHold;
use super::output::tell;
use crate::store::OperatorVerb;

/// The longest answer that is read to its end, in bytes. Nothing that is longer is a yes.
const MAX_ANSWER: usize = 1024;

/// Tells how many rows a filter matches, and asks on standard error unless `yes`. The answer is a line of standard
/// input, whoever writes it: a person at a terminal, or a program at the other end of a pipe.
///
/// # Errors
///
/// [`DoesNotHold`] when the answer is not yes; another when the input ends without an answer.
pub fn confirm(verb: OperatorVerb, count: u64, yes: bool) -> anyhow::Result<()> {
    let rows = if count == 1 { "dead letter" } else { "dead letters" };
    tell!("{count} {rows} match the filter");
    if yes || count == 0 {
        return Ok(());
    }
    let mut question = io::stderr().lock();
    write!(question, "{} all of them? [y/N] ", verb.name())?;
    question.flush()?;
    let answer = answer(io::stdin().lock())?;
    if answer.is_none() || !io::stdin().is_terminal() {
        // Nobody has ended the line by typing.
        writeln!(question)?;
    }
    match answer {
        Some(true) => Ok(()),
        Some(false) => Err(DoesNotHold("nothing was changed".to_owned()).into()),
        None => bail!("{} for a filter needs --yes, or an answer on standard input", verb.name()),
    }
}

/// Whether the next line says yes; `None` when there is nothing more to be read.
fn answer(input: impl BufRead) -> io::Result<Option<bool>> {
    let mut line = Vec::new();
    // One byte more tells an answer that was cut.
    let read = input.take(MAX_ANSWER as u64 + 1).read_until(b'\n', &mut line)?;
    if read > MAX_ANSWER {
        return Ok(Some(false));
    }
    let word = line.trim_ascii();
    if word.is_empty() && !line.ends_with(b"\n") {
        return Ok(None);
    }
    Ok(Some([&b"y"[..], b"yes"].iter().any(|yes| word.eq_ignore_ascii_case(yes))))
}
