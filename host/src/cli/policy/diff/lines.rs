//! Comparing over a file of dead letters.

use std::io::BufRead;

use jiff::Timestamp;

use super::progress::Progress;
use super::sides::Sides;
use super::tally::Tally;
use super::{PAGE, Picked};
use crate::cli::import_lines::{BadLines, ImportError, read_lines};
use crate::model::decision::Siblings;
use crate::model::json::parse_entry;
use crate::store::Candidate;

/// Lines that hold more together are not gathered: one line may be as long as a page of usual ones.
const MAX_GATHERED: usize = 4 << 20;

/// Why a file was not compared over.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// It could not be read to its end.
    #[error(transparent)]
    Read(ImportError),
    /// Some lines are bad.
    #[error("nothing is compared: {0}")]
    Lines(BadLines),
}

/// Compares what both sides make of the dead letters of a file, one JSON object a line, in memory for some of them. Each
/// line is an entry as `policy eval` takes it; each stands alone.
///
/// # Errors
///
/// A line is bad, the file breaks off, or the host could not ask.
pub async fn compare(
    reader: impl BufRead,
    picked: &Picked,
    now: Timestamp,
    sides: &mut Sides,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut progress = Progress::start();
    let mut bad = BadLines::default();
    let (mut rows, mut numbers, mut gathered, mut after) = (Vec::new(), Vec::new(), 0, 0);
    for line in read_lines(reader) {
        let line = line.map_err(|error| LinesError::Read(ImportError::Read { after, error }))?;
        after = line.number;
        gathered += line.text.as_ref().map_or(0, String::len);
        match line.text.and_then(|text| parse_entry(&text, now)) {
            Ok(entry) if picked.takes(&entry) => {
                rows.push(Candidate { entry, siblings: Siblings::default() });
                numbers.push(line.number);
            }
            Ok(_) => {}
            Err(error) => bad.add(line.number, error),
        }
        if rows.len() >= PAGE as usize || gathered >= MAX_GATHERED {
            let name = |place: usize| named(&numbers, place);
            sides.compare(&rows, now, tally, name).await?;
            progress.at(tally.compared);
            rows.clear();
            numbers.clear();
            gathered = 0;
        }
    }
    if !bad.first.is_empty() {
        return Err(LinesError::Lines(bad).into());
    }
    sides.compare(&rows, now, tally, |place| named(&numbers, place)).await
}

fn named(numbers: &[u64], place: usize) -> String {
    format!("line {}", numbers.get(place).copied().unwrap_or_default())
}
