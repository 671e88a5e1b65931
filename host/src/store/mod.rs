//! What is asked of a database, and the two that answer.
//!
//! Four traits, by who asks: [`Verbs`] are the contract with applications, [`RecoveryStore`] is what the worker
//! needs, [`PerspectiveStore`] what drainers need, [`OperatorStore`] what people need. [`Store`] is all of them.
//! PostgreSQL and SQLite give the same answers: one conformance suite runs over both.
//!
//! Every call takes `now: Option<Timestamp>` where time matters; `None` is the database's clock, so that hosts whose
//! clocks differ agree on what is due.

pub mod batch;
pub mod error;
pub mod instances;
pub mod open;
pub mod operator;
pub mod passes;
pub mod perspective;
pub mod postgres;
pub mod sqlite;
pub mod streams;
pub mod survey;
pub mod verbs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

pub use batch::{
    Attempt, Begin, Begun, Candidate, Claim, ClaimRequest, Cursor, DecisionRecord, Due, Ending, Outcome, Rescued,
    Ruling, Seen, Settle, Settled, Split,
};
pub use error::StoreError;
pub use instances::{HostBeat, HostPlace};
pub use operator::{
    ChangeOutcome, Filter, Import, Imported, NewDeadLetter, OperatorChange, OperatorVerb, Page, RecordedDecision, Row,
    Stats, Target, Whole,
};
pub use passes::{ClearDeferrals, Cleared, Forget, Forgotten, KeepSettled};
pub use perspective::PerspectiveStore;
pub use streams::{InStream, StreamOrder, StreamTerms};
pub use survey::{History, Place, Recorded, Survey, Surveyed};
pub use verbs::{Move, Moved, Sweep};

use crate::model::SourceTable;

/// What a store call gives.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The contract with applications: on PostgreSQL each is the SQL function of that name.
#[async_trait]
pub trait Verbs: Send + Sync {
    /// Moves a row of a source table to the dead letters in one transaction. `None` when the row is gone already.
    async fn move_to_dead_letters(&self, request: &Move) -> Result<Option<Moved>>;

    /// The due rows, strictly oldest `dead_lettered_at` first, ties by id. Reads only.
    async fn fetch_dead_letters_due(&self, now: Option<Timestamp>, max: u32) -> Result<Vec<Row>>;

    /// Re-emits one pending row that is in no live batch. True once; see the data model for what false leaves behind.
    async fn recover_dead_letter(&self, id: Uuid, now: Option<Timestamp>) -> Result<bool>;

    /// Holds a row for review. Leaves a recovered row alone.
    async fn mark_dead_letter_holding(&self, id: Uuid) -> Result<()>;

    /// Gives a row up. Leaves a recovered row alone.
    async fn mark_dead_letter_permanently_failed(&self, id: Uuid) -> Result<()>;

    /// Makes a row pending, due at `at`. Leaves a recovered row alone.
    async fn schedule_next_dead_letter_attempt(&self, id: Uuid, at: Timestamp) -> Result<()>;

    /// The sweep in one call; the number of rows that it reached. See [`RecoveryStore::sweep`].
    async fn reset_dead_letters_for_generation(&self, generation: &str) -> Result<u64>;
}

/// What the worker needs. A host works on a batch: claim, begin, settle.
#[async_trait]
pub trait RecoveryStore: Send + Sync {
    /// Makes this process the one that recovers, where the store allows one only (SQLite); elsewhere does nothing.
    /// Held until the store is dropped. [`StoreError::AnotherHost`] when there is one already.
    async fn become_recovering_host(&self) -> Result<()>;

    /// Says that a host is alive, registers it when it is new, and removes the hosts that have been silent for longer
    /// than [`instances::SILENT`]; where it stands among those that are present. Instances of other services are left
    /// alone.
    async fn register_host(&self, beat: &HostBeat<'_>) -> Result<HostPlace>;

    /// Removes a host that ends. One that is not registered is no error.
    async fn remove_host(&self, instance_id: Uuid) -> Result<()>;

    /// Takes each row whose disposition is `RetryNow` as one operator's retry. How many there were.
    async fn take_operator_retries(&self, now: Option<Timestamp>) -> Result<u64>;

    /// Claims due rows, in the order in which they fall due, whose id and stream are in no live batch and whose credit
    /// is not reserved for another generation. Commits one batch row (none when nothing is due), in phase deciding.
    /// Rows that cannot be read are held with a note and left out.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim>;

    /// Carries out the decisions that re-emit nothing, and leaves in the batch the rows to be recovered, in phase
    /// recovering: from then on their attempts count. Without any, the batch is dissolved.
    async fn begin(&self, request: &Begin<'_>) -> Result<Begun>;

    /// Dead letters in the order of their streams, each with what stands in its way. To be asked about the rows of a
    /// batch, whose streams nobody else works on meanwhile.
    async fn stream_order(&self, request: &StreamOrder<'_>) -> Result<Vec<InStream>>;

    /// Re-emits the rows of a batch in phase recovering and dissolves it, in one transaction. A bad row is isolated by
    /// halving; the others are recovered. A row whose message has died again since the claim is held, at no attempt. An
    /// infrastructure fault counts nothing and leaves the batch as it was; so does a change of a dead letter that the
    /// database refuses, which is an error of the whole call.
    async fn settle(&self, request: &Settle<'_>) -> Result<Vec<Settled>>;

    /// Takes rows out of a batch in phase recovering and puts them into one like it; false when the batch was lost.
    async fn split(&self, request: &Split<'_>) -> Result<bool>;

    /// Prolongs a batch; false when it was lost.
    async fn renew(&self, batch_id: Uuid, lease: std::time::Duration, now: Option<Timestamp>) -> Result<bool>;

    /// Gives back a batch that was not settled, in either phase: nothing is counted. A batch that is gone is no error.
    async fn release(&self, batch_id: Uuid) -> Result<()>;

    /// Looks over a stretch of the due rows of which nearly all have been settled since a pass went along it: for a store
    /// that would keep whoever starts at the front busy with them else. Changes nothing.
    async fn look_over(&self, _after: Cursor, _up_to: Cursor) -> Result<()> {
        Ok(())
    }

    /// Dissolves the batches whose lease has ended: phase recovering counts an attempt on each id still in it, phase
    /// deciding a policy error, which holds the row at `max_policy_errors`.
    async fn rescue(&self, max_policy_errors: u32, now: Option<Timestamp>) -> Result<Rescued>;

    /// Gives every open or held row its one attempt on a new generation, in chunks; the number of rows reached.
    async fn sweep(&self, request: &Sweep<'_>) -> Result<u64>;

    /// Looks at a chunk of the rows that a policy put off, by `skip` or `policy-error`, and makes those due at once that
    /// another policy put off than the one in use.
    async fn clear_policy_deferrals(&self, request: &ClearDeferrals<'_>) -> Result<Cleared>;

    /// Looks at a chunk of the recorded decisions and deletes those that are older than `keep`, as is everything else
    /// that was decided about their dead letter, when this is recovered, given up or gone. What is open keeps its
    /// history.
    async fn forget_decisions(&self, request: &Forget<'_, Duration>) -> Result<Forgotten>;

    /// Looks at a chunk of the dead letters and deletes those that have been settled for longer than `keep` says. Of a
    /// message with an open or held dead letter all of them stay.
    async fn forget_settled(&self, request: &Forget<'_, KeepSettled>) -> Result<Forgotten>;

    /// One cheap read: whether a row is due for a host of `generation`, and when the next thing falls due.
    async fn due(&self, generation: &str, now: Option<Timestamp>) -> Result<Due>;

    /// Subscribes to signals. Dropping the receiver ends the subscription.
    async fn signals(&self) -> Result<tokio::sync::mpsc::Receiver<Signal>>;
}

/// Something a store's subscription has to say. Signals are hints: missing one costs time, never a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Rows may be due.
    Ready,
    /// The subscription was lost and is being re-established.
    Lost,
    /// It stands again; rows may have been missed.
    Restored,
}

/// What people need.
#[async_trait]
pub trait OperatorStore: Send + Sync {
    /// Creates or updates the schema. Running it again changes nothing. `adopt` replaces functions of a contract name
    /// that were not made here. The names of the migrations that were applied.
    async fn migrate(&self, adopt: bool) -> Result<Vec<String>>;

    /// [`StoreError::NotMigrated`] unless the schema is the one this version needs.
    async fn check_schema(&self) -> Result<()>;

    /// Inserts dead letters, all of them or none; ids that are there already are skipped and told.
    async fn import(&self, request: &Import<'_>) -> Result<Imported>;

    /// Rows by filter, newest first, without bodies.
    async fn list(&self, filter: &Filter, page: &Page) -> Result<Vec<Row>>;

    /// How many rows a filter matches.
    async fn count(&self, filter: &Filter) -> Result<u64>;

    /// One row whole, with its other incarnations and its decisions.
    async fn show(&self, id: Uuid) -> Result<Option<Whole>>;

    /// Of those of these rows that wait for an earlier one of their stream, which one each waits for.
    async fn waits_for(&self, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>>;

    /// A page of dead letters for a comparison of policies. Reads only, by key and not by offset, whatever the statuses.
    async fn survey(&self, request: &Survey<'_>) -> Result<Surveyed>;

    /// A page of what policies decided, with what they saw. Reads only.
    async fn history(&self, request: &History) -> Result<Recorded>;

    /// The row of a source table with this id, as the text of a JSON object; `None` when there is none.
    async fn source_row(&self, source_table: SourceTable, source_id: Uuid) -> Result<Option<String>>;

    /// Carries out an operator's verb: what changed and what did not and why, one outcome per id.
    async fn change(&self, request: &OperatorChange<'_>) -> Result<Vec<ChangeOutcome>>;

    /// The numbers of the whole table.
    async fn stats(&self, now: Option<Timestamp>) -> Result<Stats>;

    /// Whether the database answers.
    async fn ping(&self) -> Result<()>;
}

/// A database that serves all of it.
pub trait Store: Verbs + RecoveryStore + PerspectiveStore + OperatorStore {}

impl<T: Verbs + RecoveryStore + PerspectiveStore + OperatorStore> Store for T {}

/// A store to share.
pub type SharedStore = Arc<dyn Store>;
