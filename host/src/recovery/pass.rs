//! One pass over what is due, shared by the lanes of a host.

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use uuid::Uuid;

use super::batch::Batch;
use super::scan::Scanner;
use super::trail::Trail;
use crate::store::{ClaimRequest, Cursor, StoreError};

/// Where a pass over the due rows stands; the lanes of a host share it.
///
/// A pass goes on after the last row that it looked at instead of starting at the front each time: rows whose
/// settling is not visible yet, or that wait for another host, are passed once and not for every claim.
///
/// Twice as many batches are under way as there are lanes: one half is decided while the other is recovered, so that
/// there is work to be done while a commit is waited for.
///
/// A lane that reads to the end while others have batches in hand is done: what it passed may be of their streams, and
/// the others go on behind their own rows. Only when nobody has any is the pass at its end. Nor is a batch decided ahead
/// where there are too few streams for so many batches. Where the policy keeps the order of streams, claims take whole
/// streams: row by row, they would be met before earlier ones of their streams and put off, each for a recorded decision.
#[derive(Debug)]
pub struct Pass {
    place: Mutex<Place>,
    lanes: Semaphore,
    most: u32,
}

#[derive(Debug)]
struct Place {
    after: Option<Cursor>,
    ended: bool,
    /// Batches in hand.
    working: u32,
    trail: Trail,
}

impl Pass {
    pub(super) fn new(lanes: u16) -> Self {
        let place = Place { after: None, ended: false, working: 0, trail: Trail::new(lanes) };
        Self { place: Mutex::new(place), lanes: Semaphore::new(usize::from(lanes)), most: u32::from(lanes) }
    }

    /// Waits for a lane to recover a batch in; it is free again when what is returned is dropped.
    pub(super) async fn lane(&self) -> Option<SemaphorePermit<'_>> {
        // Lanes are never closed.
        self.lanes.acquire().await.ok()
    }

    pub(super) async fn ended(&self) -> bool {
        self.place.lock().await.ended
    }

    /// Lets the other lanes stop at their next claim.
    pub(super) async fn end(&self) {
        self.place.lock().await.ended = true;
    }

    /// A batch is no longer in hand. What it answers with is a stretch of the pass that is to be looked over.
    pub(super) async fn worked(&self) -> Option<(Cursor, Cursor)> {
        let mut place = self.place.lock().await;
        place.working = place.working.saturating_sub(1);
        place.trail.stretch()
    }

    /// Claims the next rows; `None` when the pass has ended.
    pub(super) async fn claim(&self, scanner: &Scanner, max: u32) -> Result<Option<Batch>, StoreError> {
        // Held across the claim: two lanes must not start from the same place.
        let mut place = self.place.lock().await;
        if place.ended {
            return Ok(None);
        }
        let generation = scanner.generation.tag_or_unversioned();
        let request = ClaimRequest {
            batch_id: Uuid::now_v7(),
            owner: scanner.instance,
            generation: &generation,
            max,
            after: place.after,
            whole_streams: scanner.pace.whole_streams(),
            lease: scanner.options.lease,
            now: scanner.now,
        };
        let claim = match scanner.store.claim(&request).await {
            Ok(claim) => claim,
            Err(error) => {
                // It may have been committed with only the answer lost.
                scanner.abandon(request.batch_id).await;
                return Err(error);
            }
        };
        let at_the_end = claim.cursor.is_none();
        let is_crowded = claim.crowded && place.working >= self.most;
        place.ended = at_the_end && place.working == 0;
        place.after = claim.cursor.or(place.after);
        if let Some(stop) = claim.cursor {
            place.trail.stopped_at(stop);
        }
        place.working += 1;
        Ok(Some(Batch::new(request.batch_id, claim, at_the_end || is_crowded)))
    }
}
