//! Draining events into read models: claims, the gate, the drainer, and what recovery brings back.

mod applying;
mod claiming;
mod course;
mod crowd;
mod gate;
mod in_order;
mod model;
mod moving_leased;
mod orphans;
mod program;
mod random;
mod recovering;
mod reporting;
mod spent;

use std::time::Duration;

use jiff::Timestamp;
use reprieve::store::PerspectiveStore;
use reprieve::store::perspective::{ClaimedEvent, EventClaim, EventFailure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::rows::{event, with};
use crate::harness::{Backend, at, instance, source, stream, time_text};

/// How long the leases of these tests last.
pub const LEASE: Duration = Duration::from_secs(60);

/// The `n`-th event, the `n`-th of all, on a stream.
pub async fn stored(store: &Backend, n: u64, on: u64) {
    let row = json!({
        "event_id": event(n), "stream_id": stream(on), "commit_sequence": n, "event_type": "OrderPlaced",
        "event_data": {"order": n}, "metadata": {"tenant": "acme"}, "created_at": time_text(at(-100)),
    });
    store.insert("wh_event_store", &row).await;
}

/// The row that asks for the `n`-th event to be applied to `totals`; it has the `n`-th source's id.
pub fn pending(n: u64, on: u64) -> Value {
    json!({
        "event_work_id": source(n), "stream_id": stream(on), "perspective_name": "totals", "event_id": event(n),
        "created_at": time_text(at(-100)),
    })
}

/// The `n`-th event on a stream, and the row that asks for it to be applied.
pub async fn arrives(store: &Backend, n: u64, on: u64) {
    arrives_as(store, n, on, json!({})).await;
}

/// The same, with some columns of its own.
pub async fn arrives_as(store: &Backend, n: u64, on: u64, columns: Value) {
    stored(store, n, on).await;
    store.insert("wh_perspective_events", &with(pending(n, on), columns)).await;
}

/// A claim of one stream by the `who`-th instance.
pub fn claim_of(who: u64, streams: &[Uuid], now: Timestamp) -> EventClaim<'_> {
    let now = Some(now);
    EventClaim { instance_id: instance(who), streams, perspective: None, in_order: false, lease: LEASE, now }
}

/// Claims whatever may be claimed of a stream.
pub async fn claims(store: &dyn PerspectiveStore, who: u64, on: u64, seconds: i64) -> Vec<ClaimedEvent> {
    store.claim_events(&claim_of(who, &[stream(on)], at(seconds))).await.unwrap()
}

/// Claims what may be applied of a stream.
pub async fn claims_in_order(store: &dyn PerspectiveStore, who: u64, on: u64, seconds: i64) -> Vec<ClaimedEvent> {
    let streams = [stream(on)];
    let claim = EventClaim { in_order: true, ..claim_of(who, &streams, at(seconds)) };
    store.claim_events(&claim).await.unwrap()
}

/// The ids of rows and their attempts.
pub fn attempts_of(rows: &[ClaimedEvent]) -> Vec<(Uuid, i32)> {
    rows.iter().map(|row| (row.event_work_id, row.attempts)).collect()
}

/// The attempts of the `n`-th row as they stand in the table.
pub async fn attempts(store: &Backend, n: u64) -> i64 {
    row(store, n).await["attempts"].as_i64().unwrap()
}

/// The `n`-th row.
pub async fn row(store: &Backend, n: u64) -> serde_json::Map<String, Value> {
    let row = store.source_row("wh_perspective_events", source(n)).await;
    row.unwrap_or_else(|| panic!("row {n} is gone"))
}

/// A failure of the `n`-th row.
pub fn failure(n: u64) -> EventFailure {
    EventFailure {
        event_work_id: source(n),
        error: "no such customer".to_owned(),
        reason: reprieve::model::FailureReason(4),
    }
}
