//! Claiming rows of streams.

use std::collections::{HashMap, HashSet};

use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::SqliteStore;
use super::connect::Write;
use super::values::{Cell, json_ids, json_list, time_text};
use crate::model::time::later;
use crate::store::Result;
use crate::store::perspective::{ClaimedEvent, EventClaim, StoredEvent, company};

/// The open rows of streams (?1), of one perspective unless ?2 is NULL, in the order in which they are applied.
const OPEN: &str = "select w.event_work_id, w.stream_id, w.event_id, w.perspective_name, w.attempts, w.claimed_at, \
    w.instance_id, w.lease_expiry, w.scheduled_for, w.error is not null as failed, e.event_id is not null as stored, \
    e.event_type, e.event_data, e.metadata, e.commit_sequence \
    from wh_perspective_events w left join wh_event_store e on e.event_id = w.event_id \
    where w.stream_id in (select value from json_each(?1)) and w.processed_at is null \
    and (?2 is null or w.perspective_name = ?2) \
    order by w.stream_id, e.commit_sequence is null, e.commit_sequence, w.event_id, w.perspective_name";
const TAKE: &str = "update wh_perspective_events set attempts = min(attempts + (instance_id is not ?1), 2147483647), \
    claimed_at = case when instance_id is not ?1 then ?2 else claimed_at end, instance_id = ?1, lease_expiry = ?3 \
    where event_work_id in (select value from json_each(?4))";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("perspective_claim::OPEN", OPEN), ("perspective_claim::TAKE", TAKE)];

/// See [`crate::store::PerspectiveStore::claim_events`].
pub(super) async fn claim(store: &SqliteStore, claim: &EventClaim<'_>) -> Result<Vec<ClaimedEvent>> {
    let mut write = store.write(claim.now).await?;
    let claimed = claim_in(&mut write, claim).await;
    let claimed = claimed.map_err(|error| store.fault.of("claim perspective events", error))?;
    write.commit().await?;
    Ok(claimed)
}

async fn claim_in(
    write: &mut Write<'_>,
    claim: &EventClaim<'_>,
) -> std::result::Result<Vec<ClaimedEvent>, sqlx::Error> {
    let query = sqlx::query(OPEN).bind(json_ids(claim.streams.iter().copied()));
    let rows = query.bind(claim.perspective.map(str::to_owned)).fetch_all(&mut write.conn).await?;
    let now = time_text(write.now);
    let open: Vec<OpenRow> = rows.iter().filter_map(|row| OpenRow::read(row, claim.instance_id, &now)).collect();
    let taken: Vec<bool> = choose(&open, claim.in_order);
    let keys = open.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(row, _)| row.key.as_str());
    sqlx::query(TAKE)
        .bind(claim.instance_id.to_string())
        .bind(now)
        .bind(time_text(later(write.now, claim.lease)))
        .bind(json_list(keys))
        .execute(&mut write.conn)
        .await?;
    let leased = open.into_iter().zip(taken).filter_map(|(row, taken)| match taken {
        true => Some(row.taken(write.now)),
        false => (!claim.in_order && row.hold == Hold::Own { live: true }).then_some(row.event),
    });
    Ok(leased.collect())
}

/// Which of the open rows are claimed; they stand in the order in which they are applied.
fn choose(open: &[OpenRow], in_order: bool) -> Vec<bool> {
    let held: HashSet<Uuid> =
        open.iter().filter(|row| row.hold == Hold::Another).map(|row| row.event.stream_id).collect();
    let mut ways: HashMap<(Uuid, &str), Way> = HashMap::new();
    let mut taken = Vec::with_capacity(open.len());
    for row in open {
        let way = ways.entry((row.event.stream_id, row.event.perspective_name.as_str())).or_default();
        let free = row.due && !held.contains(&row.event.stream_id);
        way.places += 1;
        if row.event.event.is_some() {
            way.company = way.company.min(company(row.event.attempts));
        }
        let may = !way.stopped && (way.places == 1 || way.places <= way.company);
        taken.push(free && (may || !in_order));
        way.stopped |= row.event.event.is_some() && (!free || row.failed);
    }
    taken
}

/// How far a claim goes along a stream and perspective.
struct Way {
    /// The rows so far.
    places: u64,
    /// How many it may be at most.
    company: u64,
    stopped: bool,
}

impl Default for Way {
    fn default() -> Self {
        Self { places: 0, company: u64::MAX, stopped: false }
    }
}

/// Whose a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Nobody's, or another's whose lease has lapsed.
    Free,
    /// The caller's, with a lease that is unexpired or not.
    Own { live: bool },
    /// Another's, with an unexpired lease.
    Another,
}

struct OpenRow {
    /// The id as it stands in the row.
    key: String,
    event: ClaimedEvent,
    hold: Hold,
    due: bool,
    failed: bool,
}

impl OpenRow {
    /// A row whose ids cannot be read is left alone.
    fn read(row: &SqliteRow, instance_id: Uuid, now: &str) -> Option<Self> {
        let cell = |column| Cell::named(row, column);
        let text = |column| cell(column).into_text();
        let key = text("event_work_id")?;
        let (Some(event_work_id), Some(stream_id), Some(event_id)) =
            (cell("event_work_id").uuid(), cell("stream_id").uuid(), cell("event_id").uuid())
        else {
            tracing::warn!(event_work_id = key, "a row of wh_perspective_events has an id that is no UUID: left alone");
            return None;
        };
        let live = text("lease_expiry").is_some_and(|expiry| expiry.as_str() > now);
        let hold = match cell("instance_id").uuid() {
            Some(owner) if owner == instance_id => Hold::Own { live },
            Some(_) if live => Hold::Another,
            Some(_) | None => Hold::Free,
        };
        let event = (cell("stored").integer() == Some(1)).then(|| StoredEvent {
            event_type: text("event_type").unwrap_or_default(),
            event_data: text("event_data").unwrap_or_default(),
            metadata: text("metadata").unwrap_or_default(),
            commit_sequence: cell("commit_sequence").integer(),
        });
        let attempts = cell("attempts").integer().and_then(|number| i32::try_from(number).ok()).unwrap_or(0);
        let event = ClaimedEvent {
            event_work_id,
            stream_id,
            event_id,
            perspective_name: text("perspective_name").unwrap_or_default(),
            attempts,
            claimed_at: cell("claimed_at").time(),
            taken_over: false,
            event,
        };
        let due = text("scheduled_for").is_none_or(|at| at.as_str() <= now);
        Some(Self { key, event, hold, due, failed: cell("failed").integer() == Some(1) })
    }

    /// The row after its claim.
    fn taken(self, now: jiff::Timestamp) -> ClaimedEvent {
        match self.hold {
            Hold::Own { .. } => self.event,
            Hold::Free | Hold::Another => ClaimedEvent {
                attempts: self.event.attempts.saturating_add(1),
                claimed_at: Some(now),
                taken_over: true,
                ..self.event
            },
        }
    }
}
