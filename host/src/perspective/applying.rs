//! The middle of a step: from the rows that survived the gate to what is to be reported of them.

use std::collections::HashSet;
use std::time::Instant;

use uuid::Uuid;

use super::apply::{Apply, ApplyError};
use super::drained::Drained;
use super::drainer::Drainer;
use crate::model::FailureReason;
use crate::store::perspective::{ClaimedEvent, EventFailure};

/// A row that survived the gate, with its event as the program reads it.
pub(super) struct Parsed<E> {
    row: ClaimedEvent,
    event: std::result::Result<E, ApplyError>,
    /// Whether it was applied a moment ago.
    recent: bool,
}

/// What is to be reported of a step.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) done: Vec<Uuid>,
    pub(super) failures: Vec<EventFailure>,
}

impl<A: Apply> Drainer<A> {
    /// The events of the survivors, as the program reads them.
    pub(super) fn deserialize(&self, rows: Vec<ClaimedEvent>) -> Vec<Parsed<A::Event>> {
        let parse = |row: ClaimedEvent| {
            let event = match &row.event {
                Some(event) => self.apply.deserialize(event),
                None => Err(ApplyError::new(
                    FailureReason::EVENT_STORAGE_FAILURE,
                    format!("event {} is no longer in wh_event_store", row.event_id),
                )),
            };
            Parsed { row, event, recent: false }
        };
        rows.into_iter().map(parse).collect()
    }

    /// Marks what was applied a moment ago.
    pub(super) fn screen(&self, rows: Vec<Parsed<A::Event>>) -> Vec<Parsed<A::Event>> {
        rows.into_iter().map(|parsed| Parsed { recent: self.cooldown.has_applied(&parsed.row), ..parsed }).collect()
    }

    /// Applies what was not. Rows behind a failed one of their stream and perspective are left alone, neither applied
    /// nor counted as failed; so are all once the lease has ended, which was taken after `begun`.
    pub(super) async fn apply_in_order(
        &self,
        rows: Vec<Parsed<A::Event>>,
        begun: Instant,
        drained: &mut Drained,
    ) -> Applied {
        let mut applied = Applied::default();
        let mut stopped: HashSet<(Uuid, String)> = HashSet::new();
        for Parsed { row, event, recent } in rows {
            let stream = (row.stream_id, row.perspective_name.clone());
            if stopped.contains(&stream) || begun.elapsed() >= self.options.lease {
                drained.waiting += 1;
                continue;
            }
            let outcome = match event {
                _ if recent => Ok(()),
                Ok(event) => self.apply.apply(&row, &event).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => {
                    self.cooldown.applied(&row);
                    applied.done.push(row.event_work_id);
                    drained.recent += u64::from(recent);
                }
                Err(error) => {
                    // An event that is gone never comes back: nothing waits for it.
                    if row.event.is_some() {
                        stopped.insert(stream);
                    }
                    applied.failures.push(failure(&row, error));
                }
            }
        }
        applied
    }
}

fn failure(row: &ClaimedEvent, error: ApplyError) -> EventFailure {
    tracing::warn!(event_work_id = %row.event_work_id, perspective = row.perspective_name, stream_id = %row.stream_id,
        event_id = %row.event_id, attempts = row.attempts, %error, "an event was not applied");
    EventFailure { event_work_id: row.event_work_id, error: error.to_string(), reason: error.reason }
}
