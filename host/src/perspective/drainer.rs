//! The drainer: one step from the claim to the report, and the loops around it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use uuid::Uuid;

use super::apply::Apply;
use super::applying::Applied;
use super::cooldown::Cooldown;
use super::drained::Drained;
use super::gate::Gate;
use super::options::DrainerOptions;
use crate::model::SourceTable;
use crate::store::perspective::{ClaimedEvent, EventClaim, OrphanClaim};
use crate::store::{PerspectiveStore, Result};

/// Drains perspective events for one instance of a program. Cheap to clone; clones are the same instance.
///
/// A step that is dropped in the middle leaves its rows leased: the next step of this instance goes on with them, and
/// once the lease has lapsed, any other's.
pub struct Drainer<A> {
    /// Where the rows are.
    pub store: Arc<dyn PerspectiveStore>,
    /// What is done with the events.
    pub apply: Arc<A>,
    /// What moves rows whose attempts are spent. Its table and instance are the drainer's.
    pub gate: Gate,
    /// What has been applied a moment ago.
    pub cooldown: Cooldown,
    /// Who drains: an id of its own for each process.
    pub instance_id: Uuid,
    /// How.
    pub options: DrainerOptions,
    /// Stands in for the clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

impl<A> Clone for Drainer<A> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            apply: Arc::clone(&self.apply),
            gate: self.gate.clone(),
            cooldown: self.cooldown.clone(),
            instance_id: self.instance_id,
            options: self.options.clone(),
            now: self.now,
        }
    }
}

impl<A: Apply> Drainer<A> {
    /// One step over these streams: claim, gate, parse, cooldown, apply, report, in this order.
    ///
    /// # Errors
    ///
    /// The store's. Rows that were claimed stay leased, and the next step goes on with them at no further attempt;
    /// what was applied already is known to the cooldown cache.
    pub async fn drain(&self, streams: &[Uuid]) -> Result<Drained> {
        let begun = Instant::now();
        let claimed = self.claim(streams).await?;
        let mut drained = Drained { claimed: count(claimed.len()), ..Drained::default() };
        let filtered = self.gate().filter(claimed, self.now).await;
        (drained.moved, drained.gone) = (filtered.moved, filtered.gone);
        if filtered.survivors.is_empty() {
            return Ok(drained);
        }
        let parsed = self.deserialize(filtered.survivors);
        let screened = self.screen(parsed);
        let applied = self.apply_in_order(screened, begun, &mut drained).await;
        self.report(applied, &mut drained).await?;
        Ok(drained)
    }

    /// Steps over the streams that have something to be claimed, until a step finds nothing that it can do.
    ///
    /// # Errors
    ///
    /// The store's, see [`Drainer::drain`].
    pub async fn until_idle(&self) -> Result<Drained> {
        let mut total = Drained::default();
        loop {
            let max = self.options.streams_per_step;
            let streams = self.store.pending_streams(self.instance_id, max, self.now).await?;
            let drained = if streams.is_empty() { Drained::default() } else { self.drain(&streams).await? };
            total += drained;
            if !drained.made_progress() {
                return Ok(total);
            }
        }
    }

    /// Takes over at most `max` rows of dead instances, and makes a step over their streams.
    ///
    /// # Errors
    ///
    /// The store's, see [`Drainer::drain`].
    pub async fn adopt_orphans(&self, max: u32) -> Result<Drained> {
        let (lease, now) = (self.options.lease, self.now);
        let claim = OrphanClaim { instance_id: self.instance_id, max, in_order: true, lease, now };
        let orphans = self.store.claim_orphaned_events(&claim).await?;
        let streams: HashSet<Uuid> = orphans.iter().map(|orphan| orphan.stream_id).collect();
        if streams.is_empty() {
            return Ok(Drained::default());
        }
        self.drain(&streams.into_iter().collect::<Vec<_>>()).await
    }

    /// The gate for what this instance claims, whatever it was made for.
    fn gate(&self) -> Gate {
        Gate { source_table: SourceTable::PerspectiveEvents, instance_id: self.instance_id, ..self.gate.clone() }
    }

    async fn claim(&self, streams: &[Uuid]) -> Result<Vec<ClaimedEvent>> {
        let claim = EventClaim {
            instance_id: self.instance_id,
            streams,
            perspective: None,
            in_order: true,
            lease: self.options.lease,
            now: self.now,
        };
        self.store.claim_events(&claim).await
    }

    async fn report(&self, applied: Applied, drained: &mut Drained) -> Result<()> {
        let Applied { done, failures } = applied;
        if !done.is_empty() {
            let completed = self.store.complete_events(self.instance_id, &done, self.now).await?;
            drained.lost = count(done.len().saturating_sub(completed.len()));
            drained.applied = count(done.len()).saturating_sub(drained.recent);
        }
        if !failures.is_empty() {
            let failed = self.store.fail_events(self.instance_id, &failures, self.now).await?;
            drained.failed = count(failed.len());
            drained.lost += count(failures.len().saturating_sub(failed.len()));
        }
        Ok(())
    }
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
