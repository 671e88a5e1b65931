//! What a drainer asks of a database: rows of `wh_perspective_events` with their events, and reports about them.
//!
//! A row is *owned* by the instance in `instance_id`, and *leased* to it until `lease_expiry`. A lapsed row stays the
//! owner's until another takes it over. `attempts` counts the changes of the owner, and only a claim changes it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::Result;
use crate::model::{FailureReason, SourceTable};

/// How long an instance may be silent before what it holds counts as orphaned.
pub const SILENT: Duration = Duration::from_secs(5 * 60);

/// The first wait after a failed attempt; it doubles with each further attempt.
pub const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait after a failed attempt.
pub const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// How many rows of a stream and perspective a claim takes at most that goes as far as a row with so many attempts.
///
/// One that was claimed three times in vain may be what ends its claimers, and those claimed with it spend their attempts
/// on its account: so fewer come with each further attempt, in the end it alone.
#[must_use]
pub const fn company(attempts: i32) -> u64 {
    match attempts {
        ..3 => u64::MAX,
        3 => 256,
        4 => 64,
        5 => 16,
        6 => 4,
        7.. => 1,
    }
}

/// How long a row waits after a failure, when it has been claimed so often.
#[must_use]
pub fn backoff(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(16);
    MIN_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF)
}

/// What drainers need. Each call is one transaction.
#[async_trait]
pub trait PerspectiveStore: Send + Sync {
    /// Claims rows of streams and gives those that are leased to the caller, ordered by stream, `commit_sequence`
    /// (those without one last) and event. See [`EventClaim`] for what is claimed.
    async fn claim_events(&self, claim: &EventClaim<'_>) -> Result<Vec<ClaimedEvent>>;

    /// Takes over lapsed rows of instances that are not registered or have been silent for longer than [`SILENT`], at
    /// most `max`, in order within stream and perspective. A row behind one that another instance holds stays.
    async fn claim_orphaned_events(&self, claim: &OrphanClaim) -> Result<Vec<Orphan>>;

    /// Marks rows that the instance owns as processed; the ids of those that were.
    async fn complete_events(&self, instance_id: Uuid, ids: &[Uuid], now: Option<Timestamp>) -> Result<Vec<Uuid>>;

    /// Records failures of rows that the instance owns and gives them up until a backoff has passed: [`MIN_BACKOFF`],
    /// doubled with each attempt, at most [`MAX_BACKOFF`]. The ids of those that were.
    async fn fail_events(
        &self,
        instance_id: Uuid,
        failures: &[EventFailure],
        now: Option<Timestamp>,
    ) -> Result<Vec<Uuid>>;

    /// Streams with a row that the instance could claim in order now, at most `max`, those that wait longest first.
    async fn pending_streams(&self, instance_id: Uuid, max: u32, now: Option<Timestamp>) -> Result<Vec<Uuid>>;

    /// Says that an instance is alive, and registers it when it is new.
    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<()>;

    /// Forgets the instances that have been silent for longer than `silent`; their ids.
    async fn remove_stale_instances(&self, silent: Duration, now: Option<Timestamp>) -> Result<Vec<Uuid>>;

    /// Moves rows to the dead letters that the instance owns and that are not processed, all in one transaction. What
    /// became of each, in the order given; a bad row does not keep the others from being moved.
    async fn move_leased(&self, moves: &LeasedMoves<'_>) -> Result<Vec<LeasedMove>>;
}

/// A claim of rows.
///
/// Open rows of the streams are claimed that are due and have no owner, a lapsed lease, or this owner; none of a stream
/// (or of the one perspective, when one is named) on which another instance holds an unexpired lease, or that another
/// call is just claiming. `attempts` grows by one when the owner changes.
#[derive(Debug, Clone)]
pub struct EventClaim<'a> {
    /// Who claims.
    pub instance_id: Uuid,
    /// The streams.
    pub streams: &'a [Uuid],
    /// One perspective only.
    pub perspective: Option<&'a str>,
    /// Whether to leave out what must not be applied yet: rows behind an open one of the same stream and perspective
    /// that is not due or could not be claimed. A row that has failed then comes without those behind it, and one that
    /// was claimed in vain in the [`company`] that its attempts allow. A row whose event is gone stops none.
    pub in_order: bool,
    /// How long they are leased.
    pub lease: Duration,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// A row that is leased to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// The row.
    pub event_work_id: Uuid,
    /// Its stream.
    pub stream_id: Uuid,
    /// The event.
    pub event_id: Uuid,
    /// The read model.
    pub perspective_name: String,
    /// How often it has been claimed.
    pub attempts: i32,
    /// When its owner last changed.
    pub claimed_at: Option<Timestamp>,
    /// Whether its owner changed in this claim.
    pub taken_over: bool,
    /// What is to be applied; `None` when it is no longer in `wh_event_store`.
    pub event: Option<StoredEvent>,
}

/// An event as it stands in `wh_event_store`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its type.
    pub event_type: String,
    /// Its body: the text of a JSON value, not checked on SQLite.
    pub event_data: String,
    /// Likewise.
    pub metadata: String,
    /// Its place among all events.
    pub commit_sequence: Option<i64>,
}

/// A claim of what dead instances hold.
#[derive(Debug, Clone)]
pub struct OrphanClaim {
    /// Who claims.
    pub instance_id: Uuid,
    /// The most rows.
    pub max: u32,
    /// Whether to leave out what must not be applied yet, see [`EventClaim::in_order`].
    pub in_order: bool,
    /// How long they are leased.
    pub lease: Duration,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// A row that was taken over from a dead instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The row.
    pub event_work_id: Uuid,
    /// Its stream.
    pub stream_id: Uuid,
    /// The read model.
    pub perspective_name: String,
}

/// A failed attempt.
#[derive(Debug, Clone)]
pub struct EventFailure {
    /// The row.
    pub event_work_id: Uuid,
    /// What went wrong.
    pub error: String,
    /// What kind of failure it is.
    pub reason: FailureReason,
}

/// A sign of life.
#[derive(Debug, Clone)]
pub struct Heartbeat<'a> {
    /// Whose.
    pub instance_id: Uuid,
    /// The application.
    pub service_name: &'a str,
    /// The machine.
    pub host_name: &'a str,
    /// The process on it.
    pub process_id: u32,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// Rows to be moved to the dead letters, for one reason.
#[derive(Debug, Clone)]
pub struct LeasedMoves<'a> {
    /// Where they are.
    pub source_table: SourceTable,
    /// The rows, each once.
    pub rows: &'a [DoomedRow],
    /// Why.
    pub failure_reason: FailureReason,
    /// Whose they must be.
    pub instance_id: Uuid,
    /// The build they died under.
    pub generation: &'a str,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// A row to be moved.
#[derive(Debug, Clone)]
pub struct DoomedRow {
    /// Its id in the source table.
    pub source_id: Uuid,
    /// The id of the dead letter to be made (UUIDv7).
    pub dead_letter_id: Uuid,
    /// What is said about it.
    pub error_text: String,
}

/// What became of a row to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeasedMove {
    /// It is a dead letter now.
    Moved,
    /// It is gone, processed, or no longer this instance's: nothing was done.
    Gone,
    /// The database refused it; it is where it was.
    Failed(String),
}
