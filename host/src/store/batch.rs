//! The batch protocol: claim, begin, settle, rescue.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::streams::StreamTerms;
use crate::model::decision::{Siblings, Standing};
use crate::model::{DeadLetter, FailureReason, SourceTable};

/// The place of a row in the order in which rows fall due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// `next_recovery_at`, else `dead_lettered_at`.
    pub due_at: Timestamp,
    /// Among rows due at the same time, the older one first.
    pub dead_lettered_at: Timestamp,
    /// Then by id.
    pub dead_letter_id: Uuid,
}

impl Cursor {
    /// Before every row.
    pub const FRONT: Self =
        Self { due_at: Timestamp::MIN, dead_lettered_at: Timestamp::MIN, dead_letter_id: Uuid::nil() };
}

/// What to claim.
#[derive(Debug, Clone)]
pub struct ClaimRequest<'a> {
    /// The id of the batch to be made; the caller makes it, so that a lost answer can be told from a lost batch.
    pub batch_id: Uuid,
    /// The instance that claims.
    pub owner: Uuid,
    /// Its generation.
    pub generation: &'a str,
    /// At most so many rows.
    pub max: u32,
    /// Go on after this row; `None` starts a pass at the front.
    pub after: Option<Cursor>,
    /// Each row that is met brings the first of its stream along, up to one that neither is due nor waits for another of
    /// them, so that they can be recovered in their order at once. Rows by themselves do better without: the oldest of all
    /// streams come first then. A store may take fewer than `max` with them.
    pub whole_streams: bool,
    /// How long the batch lasts.
    pub lease: Duration,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// What was claimed.
#[derive(Debug)]
pub struct Claim {
    /// The time it was claimed at, by the database's clock unless another was given. Decisions use this.
    pub now: Timestamp,
    /// The rows, in the order in which they fell due. No batch exists when this is empty.
    pub rows: Vec<Candidate>,
    /// Where the pass goes on; `None` when it reached the end of what is due. Rows that were passed since their streams are
    /// in another batch of the same owner lie behind it, so that the pass meets them again in their order.
    pub cursor: Option<Cursor>,
    /// Whether more rows were passed so than were taken, as far as the store can tell: there are too few streams for so
    /// many batches.
    pub crowded: bool,
    /// Rows that could not be read: their id as text and what is wrong. They are held now.
    pub unreadable: Vec<(String, String)>,
}

/// The note of a row that is held since it cannot be read.
pub(super) fn unreadable_note(problem: &str) -> String {
    format!("unreadable: {problem}")
}

/// What is told of a row that can neither be read nor held, for `problem`.
pub(super) fn unholdable(dead_letter_id: &str, problem: &str) -> String {
    format!("dead letter {dead_letter_id} can be neither read nor held: {problem}; mend its columns, or delete it")
}

/// A claimed row and what its siblings mean for it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The row.
    pub entry: DeadLetter,
    /// Its siblings.
    pub siblings: Siblings,
}

/// What a decision was made from; when it differs from the row by the time the decision is carried out, somebody else
/// has spoken since, and the row is left to the next scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// As claimed.
    pub next_recovery_at: Option<Timestamp>,
    /// As claimed.
    pub replay_credit: Option<String>,
    /// The row of its stream that stood in its way, where that is why it waits.
    pub predecessor: Option<Uuid>,
}

impl Seen {
    /// What was seen of a claimed row.
    #[must_use]
    pub fn of(entry: &DeadLetter) -> Self {
        Self { next_recovery_at: entry.next_recovery_at, replay_credit: entry.replay_credit.clone(), predecessor: None }
    }
}

/// What a policy said of a row. Most rows of a batch share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The policy that was asked.
    pub policy_name: String,
    /// SHA-256 over its component, settings and chain, in hex.
    pub policy_digest: String,
    /// The policy's answers, a JSON object as text; `null` when it did not answer.
    pub rule: String,
}

/// What a row of `wh_dead_letter_decisions`, to be written with the change, tells of how the decision was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// What the policy said.
    pub ruling: Arc<Ruling>,
    /// The number of the attempt that is made; else the attempts spent.
    pub attempt: i32,
    /// The entry as the policy saw it, a JSON object as text.
    pub inputs: String,
}

/// A row that is not recovered now, and what becomes of it.
#[derive(Debug, Clone)]
pub struct Ending {
    /// Which.
    pub dead_letter_id: Uuid,
    /// What the decision was made from.
    pub seen: Seen,
    /// Where it goes.
    pub standing: Standing,
    /// The host's words, for `status_note` and the record; `None` clears the former.
    pub note: Option<String>,
    /// For `policy_errors`: 0 when the policy answered.
    pub policy_errors: i32,
    /// For `policy_error_digest`.
    pub policy_error_digest: Option<String>,
    /// `hold`, `permanently-fail`, `wait`, `skip` or `policy-error`.
    pub decision: &'static str,
    /// What to record; `None` records nothing (a repeated skip, say).
    pub record: Option<DecisionRecord>,
}

/// The decisions about a batch.
#[derive(Debug)]
pub struct Begin<'a> {
    /// The batch.
    pub batch_id: Uuid,
    /// The rows to recover, in the order in which they are to be re-emitted.
    pub recover: &'a [Uuid],
    /// The others. Rows of the batch that are in neither list are let go untouched.
    pub endings: &'a [Ending],
    /// How rows stand in each other's way.
    pub streams: StreamTerms,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// What came of [`Begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The batch was dissolved by somebody else; nothing was done.
    Lost,
    /// The endings that were carried out; the others had changed since the claim, or what they wait for had.
    Done {
        /// Their ids.
        ended: Vec<Uuid>,
    },
}

/// One row to re-emit.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Which.
    pub dead_letter_id: Uuid,
    /// The table that it goes back to.
    pub source_table: SourceTable,
    /// The credit that pays for it, as it was claimed; `None` counts in `recovery_attempts`.
    pub credit: Option<String>,
    /// Whether it is re-emitted only when no earlier row of its stream that is in order, too, was left behind.
    pub in_order: bool,
    /// Where it goes when it cannot be inserted.
    pub on_failure: Standing,
    /// What to record, as `recover`, with the outcome for a note.
    pub record: DecisionRecord,
}

/// The attempts of a batch.
#[derive(Debug)]
pub struct Settle<'a> {
    /// The batch, in phase recovering.
    pub batch_id: Uuid,
    /// The rows, in the order in which they are to be re-emitted.
    pub attempts: &'a [Attempt],
    /// How rows stand in each other's way.
    pub streams: StreamTerms,
    /// Why they all fail, without a try.
    pub refusal: Option<&'a str>,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// Cuts a batch in two.
#[derive(Debug)]
pub struct Split<'a> {
    /// The batch.
    pub batch_id: Uuid,
    /// What stays in it, in its order.
    pub keep: &'a [Uuid],
    /// The other one.
    pub new_batch_id: Uuid,
    /// What goes there, in its order; without any there is no other one.
    pub moved: &'a [Uuid],
    /// Those of both that keep the order of their streams: the batches hold these streams and no others.
    pub in_order: &'a [Uuid],
}

/// What became of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is back in its source table.
    Recovered,
    /// The source table has that row (or another that a unique index makes the same) already: held with a note.
    SourcePresent,
    /// The event of a perspective row is gone: held with a note.
    Gone,
    /// The message has died again since the claim: held with a note, and no attempt is counted.
    Superseded,
    /// An earlier row of its stream was not inserted and stays in its way: it waits, and no attempt is counted.
    Blocked,
    /// The insert failed with this error: the row stands where `on_failure` says.
    Failed(String),
    /// The database refuses each change of the row, with this error: it stays in a batch of its own.
    Unsettled(String),
    /// The batch was lost, or somebody else settled the row: nothing was done.
    Lost,
}

/// One attempt's outcome, committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Which.
    pub dead_letter_id: Uuid,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a rescue found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Batches dissolved.
    pub batches: u64,
    /// Rows whose attempt was counted.
    pub attempts: u64,
    /// Rows on which a policy error was counted.
    pub policy_errors: u64,
    /// The failure reasons of those that are held for it, which is recorded.
    pub held: Vec<FailureReason>,
}

/// When there is something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The clock that this was read by.
    pub now: Timestamp,
    /// Whether a row is due that this host may claim, or an operator's `RetryNow` waits.
    pub due_now: bool,
    /// The earliest moment after `now` at which a row falls due or a batch's lease ends.
    pub next_at: Option<Timestamp>,
}
