//! The rows of a batch that keep the order of their streams while they are settled.

use std::collections::HashSet;

use uuid::Uuid;

use super::connect::Write;
use super::values::{Cell, time_text};
use super::{decisions, guard, streams};
use crate::model::time::later;
use crate::model::{RecoveryStatus, notes};
use crate::store::{Attempt, InStream, StreamOrder, StreamTerms};

type Read<T> = std::result::Result<T, sqlx::Error>;

const KEY: &str = concat!("select ", super::claim::stream_key!(), " from wh_dead_letters d where d.dead_letter_id = ?");
/// What somebody else has settled since the claim is not kept back: it is lost.
const OPEN_KEY: &str = concat!(
    "select ",
    super::claim::stream_key!(),
    " from wh_dead_letters d where d.dead_letter_id = ? and d.recovery_status < 2 and d.recovered_at is null \
     and d.operator_disposition not in (2, 3)"
);
const IS_HELD: &str = "select 1 from wh_dead_letters where dead_letter_id = ? and recovery_status < 3 \
    and operator_disposition <> 3 and (recovery_status = 2 or operator_disposition = 2)";
const KEEP_BACK: &str = "update wh_dead_letters set next_recovery_at = ?, deferral = 'stream', status_note = ?, \
    policy_errors = 0, policy_error_digest = null where dead_letter_id = ?";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("line::KEY", KEY), ("line::OPEN_KEY", OPEN_KEY), ("line::IS_HELD", IS_HELD), ("line::KEEP_BACK", KEEP_BACK)];

/// Which streams go on.
pub(super) struct Line {
    terms: StreamTerms,
    /// Streams in which a row was left behind that stands in the way.
    stopped: HashSet<String>,
    kept_back: Vec<Uuid>,
}

impl Line {
    pub(super) fn new(terms: StreamTerms) -> Self {
        Self { terms, stopped: HashSet::new(), kept_back: Vec::new() }
    }

    /// Whether an earlier row of its stream keeps this one back.
    pub(super) async fn keeps_back(&mut self, write: &mut Write<'_>, attempt: &Attempt) -> Read<bool> {
        if !attempt.in_order || self.stopped.is_empty() {
            return Ok(false);
        }
        let kept = key(write, OPEN_KEY, attempt.dead_letter_id).await?.is_some_and(|key| self.stopped.contains(&key));
        if kept {
            self.kept_back.push(attempt.dead_letter_id);
        }
        Ok(kept)
    }

    /// Notes where a row stands whose turn it was; `None` unless it was left behind by this settle.
    pub(super) async fn pass(
        &mut self,
        write: &mut Write<'_>,
        attempt: &Attempt,
        stands: Option<RecoveryStatus>,
    ) -> Read<()> {
        if !attempt.in_order {
            return Ok(());
        }
        let in_the_way = match stands {
            Some(RecoveryStatus::Pending | RecoveryStatus::Recovering) => true,
            Some(RecoveryStatus::HoldForReview) => self.terms.held_blocks,
            Some(RecoveryStatus::Recovered | RecoveryStatus::PermanentlyFailed) => false,
            // Recovered, or settled by somebody else since the claim.
            None => self.terms.held_blocks && is_held(write, attempt.dead_letter_id).await?,
        };
        if in_the_way {
            self.stopped.extend(key(write, KEY, attempt.dead_letter_id).await?);
        }
        Ok(())
    }

    /// Puts off what was kept back, and makes those due that waited for the others of these streams.
    pub(super) async fn end(self, write: &mut Write<'_>, attempts: &[Attempt], streams: Vec<String>) -> Read<()> {
        if !self.kept_back.is_empty() {
            let standing: Vec<Uuid> = attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
            let held_blocks = self.terms.held_blocks;
            let order = StreamOrder { ids: &self.kept_back, passed: &[], standing: &standing, held_blocks };
            for row in streams::order_of(&mut write.conn, &order).await? {
                if let Some(attempt) = attempts.iter().find(|attempt| attempt.dead_letter_id == row.dead_letter_id) {
                    self.keep_back(write, attempt, row).await?;
                }
            }
        }
        let moving: Vec<String> = streams.into_iter().filter(|key| !self.stopped.contains(key)).collect();
        streams::wake(write, &moving).await.map(drop)
    }

    async fn keep_back(&self, write: &mut Write<'_>, attempt: &Attempt, row: InStream) -> Read<()> {
        let longest = later(write.now, self.terms.wait);
        let (until, note) = match row.predecessor {
            Some(earlier) => (
                earlier.due_at.map_or(longest, |due_at| due_at.clamp(write.now, longest)),
                Some(notes::blocked(earlier.dead_letter_id)),
            ),
            None => (write.now, None),
        };
        let query =
            sqlx::query(KEEP_BACK).bind(time_text(until)).bind(note.clone()).bind(row.dead_letter_id.to_string());
        guard::changed(&query.execute(&mut write.conn).await?)?;
        decisions::record_attempt(write, attempt, note.unwrap_or_else(|| "blocked".to_owned())).await
    }
}

async fn key(write: &mut Write<'_>, statement: &'static str, id: Uuid) -> Read<Option<String>> {
    let row = sqlx::query(statement).bind(id.to_string()).fetch_optional(&mut write.conn).await?;
    Ok(row.and_then(|row| Cell::at(&row, 0).into_text()))
}

async fn is_held(write: &mut Write<'_>, id: Uuid) -> Read<bool> {
    Ok(sqlx::query(IS_HELD).bind(id.to_string()).fetch_optional(&mut write.conn).await?.is_some())
}
