//! Comparing over the rows of a store.

use jiff::Timestamp;

use super::progress::Progress;
use super::sides::Sides;
use super::tally::Tally;
use super::{PAGE, Picked};
use crate::model::RecoveryStatus;
use crate::store::{Place, SharedStore, Survey, Surveyed};

/// What is looked at unless it is said otherwise: what a policy may yet be asked about.
const OPEN: [RecoveryStatus; 3] = [RecoveryStatus::Pending, RecoveryStatus::Recovering, RecoveryStatus::HoldForReview];

/// Compares what both sides make of the rows of a store, page by page, each page read while the one before it is asked
/// about. `now` stands in for the database's clock; the time that counted.
///
/// # Errors
///
/// The store cannot be read, or the host could not ask.
pub async fn compare(
    store: &SharedStore,
    picked: &Picked,
    now: Option<Timestamp>,
    sides: &mut Sides,
    tally: &mut Tally,
) -> anyhow::Result<Timestamp> {
    let mut progress = Progress::start();
    let mut page = read(store, picked, None).await?;
    let now = now.or(page.now).unwrap_or_else(Timestamp::now);
    while let Some(next) = page.next.take() {
        tally.unreadable += page.unreadable.len() as u64;
        let rows = &page.rows;
        let name = |place: usize| rows.get(place).map_or_else(String::new, |row| row.entry.dead_letter_id.to_string());
        let compared = sides.compare(rows, now, tally, name);
        let (following, ()) = tokio::try_join!(read(store, picked, Some(&next)), compared)?;
        progress.at(tally.compared);
        page = following;
    }
    Ok(now)
}

async fn read(store: &SharedStore, picked: &Picked, after: Option<&Place>) -> anyhow::Result<Surveyed> {
    let statuses = if picked.statuses.is_empty() { &OPEN[..] } else { &picked.statuses };
    Ok(store.survey(&Survey { statuses, since: picked.since, after, limit: PAGE }).await?)
}
