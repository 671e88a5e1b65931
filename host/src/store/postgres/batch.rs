//! Claim, begin, settle: each one round trip.

use std::collections::HashMap;

use jiff_sqlx::Timestamp as SqlTime;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::records::Records;
use super::rows::{entry_columns, get, read, time};
use super::{PostgresStore, sql_time, text};
use crate::model::decision::Siblings;
use crate::store::batch::{unholdable, unreadable_note};
use crate::store::{
    Attempt, Begin, Begun, Candidate, Claim, ClaimRequest, Cursor, Outcome, Result, Row, Settle, Settled, Split,
    StoreError,
};

pub(crate) const CLAIM: &str = concat!(
    "select claimed_at, is_full, passed, resume_due_at, resume_dead_lettered_at, resume_id, superseded_by, ",
    entry_columns!(),
    " from reprieve_claim_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
);

pub(crate) const LOOK_OVER: &str = "select reprieve_look_over($1, $2, $3, $4, $5, $6)";

pub(crate) const HOLD_UNREADABLE: &str = "select reprieve_hold_unreadable($1, $2, $3) as woken";

pub(crate) const BEGIN: &str = "\
    select reprieve_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
        $21, $22) as ended";

pub(crate) const SETTLE: &str = "\
    select dead_letter_id, outcome, problem \
    from reprieve_settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

pub(crate) const SPLIT: &str = "select reprieve_split($1, $2, $3, $4, $5) as done";

impl PostgresStore {
    pub(super) async fn claim_batch(&self, request: &ClaimRequest<'_>) -> Result<Claim> {
        let action = "claim dead letters";
        // The front is before every time that the database knows.
        let after = request.after.filter(|after| *after != Cursor::FRONT);
        let query = self
            .query(CLAIM)
            .bind(request.batch_id)
            .bind(request.owner)
            .bind(request.generation.to_owned())
            .bind(i32::try_from(request.max).unwrap_or(i32::MAX))
            .bind(after.map(|after| sql_time(after.due_at)))
            .bind(after.map(|after| sql_time(after.dead_lettered_at)))
            .bind(after.map(|after| after.dead_letter_id))
            .bind(request.whole_streams)
            .bind(request.lease.as_secs_f64())
            .bind(request.now.map(sql_time));
        let rows = self.rows(action, query).await?;
        let unread = |problem| StoreError::Database { action, problem };
        let (first, found) = rows.split_first().ok_or_else(|| unread("it gave no row".to_owned()))?;
        let now = time(first, "claimed_at").map_err(unread)?;
        let mut claim = Claim { now, rows: Vec::new(), cursor: None, crowded: false, unreadable: Vec::new() };
        claim.rows.reserve(found.len());
        for row in found {
            match read(row) {
                Row::Readable(entry) => {
                    let superseded_by = get(row, "superseded_by").map_err(unread)?;
                    claim.rows.push(Candidate { entry, siblings: Siblings { superseded_by, predecessor: None } });
                }
                Row::Unreadable { dead_letter_id, problem } => claim.unreadable.push((dead_letter_id, problem)),
            }
        }
        // Not how many came: of those that were found, somebody may have changed some since.
        if get(first, "is_full").map_err(unread)? {
            claim.cursor = resume(first).map_err(unread)?.or(request.after).or(Some(Cursor::FRONT));
            let passed = get::<i32>(first, "passed").map_err(unread)?;
            claim.crowded = usize::try_from(passed).is_ok_and(|passed| passed > found.len());
        }
        self.hold_unreadable(request.batch_id, &claim).await?;
        Ok(claim)
    }

    /// Holds what cannot be read. The rest of the claim is worth more than one that cannot even be held; where there is no
    /// rest, it is told, since it would be claimed again without end.
    async fn hold_unreadable(&self, batch_id: Uuid, claim: &Claim) -> Result<()> {
        let action = "hold an unreadable dead letter";
        let mut stays = None;
        for (id, problem) in &claim.unreadable {
            let ids: Vec<Uuid> = id.parse().into_iter().collect();
            let notes = vec![text::text(&unreadable_note(problem)).into_owned()];
            let query = self.query(HOLD_UNREADABLE).bind(ids).bind(notes).bind(sql_time(claim.now));
            match self.rows(action, query).await {
                Err(StoreError::Database { problem, .. }) => {
                    tracing::warn!(dead_letter_id = id, problem, "an unreadable dead letter stays due");
                    stays = Some(unholdable(id, &problem));
                }
                other => drop(other?),
            }
        }
        if claim.rows.is_empty() && !claim.unreadable.is_empty() {
            self.release_batch(batch_id).await?;
        }
        match stays.filter(|_| claim.rows.is_empty()) {
            Some(problem) => Err(StoreError::Database { action, problem }),
            None => Ok(()),
        }
    }

    pub(super) async fn look_over_due(&self, after: Cursor, up_to: Cursor) -> Result<()> {
        let mut query = self.query(LOOK_OVER);
        for place in [after, up_to] {
            query =
                query.bind(sql_time(place.due_at)).bind(sql_time(place.dead_lettered_at)).bind(place.dead_letter_id);
        }
        self.rows("look over settled dead letters", query).await.map(drop)
    }

    pub(super) async fn begin_batch(&self, request: &Begin<'_>) -> Result<Begun> {
        let action = "begin a batch";
        let endings = request.endings;
        let query = self
            .query(BEGIN)
            .bind(request.batch_id)
            .bind(request.recover.to_vec())
            .bind(endings.iter().map(|e| e.dead_letter_id).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.seen.next_recovery_at.map(sql_time)).collect::<Vec<Option<SqlTime>>>())
            .bind(endings.iter().map(|e| e.seen.replay_credit.clone()).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.standing.status.number()).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.standing.next_recovery_at.map(sql_time)).collect::<Vec<Option<SqlTime>>>())
            .bind(endings.iter().map(|e| e.standing.deferral.map(|d| d.name())).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.note.as_deref().map(clean)).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.policy_errors).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.policy_error_digest.clone()).collect::<Vec<_>>())
            .bind(endings.iter().map(|e| e.decision).collect::<Vec<_>>());
        let records: Records<'_> = endings.iter().map(|e| e.record.as_ref()).collect();
        let query = records
            .bind(query)
            .bind(request.now.map(sql_time))
            .bind(endings.iter().map(|e| e.seen.predecessor).collect::<Vec<_>>())
            .bind(request.streams.held_blocks);
        let row = self.row(action, query).await.map_err(about_rows(action))?;
        let ended =
            get::<Option<Vec<Uuid>>>(&row, "ended").map_err(|problem| StoreError::Database { action, problem })?;
        Ok(ended.map_or(Begun::Lost, |ended| Begun::Done { ended }))
    }

    pub(super) async fn settle_batch(&self, request: &Settle<'_>) -> Result<Vec<Settled>> {
        let attempts = request.attempts;
        let query = self
            .query(SETTLE)
            .bind(request.batch_id)
            .bind(attempts.iter().map(|a| a.dead_letter_id).collect::<Vec<_>>())
            .bind(source_tables(attempts))
            .bind(attempts.iter().map(|a| a.credit.clone()).collect::<Vec<_>>())
            .bind(attempts.iter().map(|a| a.on_failure.status.number()).collect::<Vec<_>>())
            .bind(attempts.iter().map(|a| a.on_failure.next_recovery_at.map(sql_time)).collect::<Vec<_>>())
            .bind(attempts.iter().map(|a| a.on_failure.deferral.map(|d| d.name())).collect::<Vec<_>>());
        let records: Records<'_> = attempts.iter().map(|a| Some(&a.record)).collect();
        let query = records
            .bind(query)
            .bind(request.now.map(sql_time))
            .bind(attempts.iter().map(|a| a.in_order).collect::<Vec<_>>())
            .bind(request.streams.held_blocks)
            .bind(request.streams.wait.as_secs_f64())
            .bind(request.refusal.map(clean));
        let rows = self.rows("settle a batch", query).await.map_err(about_rows("settle a batch"))?;
        let outcomes: HashMap<Option<Uuid>, Outcome> = rows.iter().filter_map(outcome).collect();
        // Without an id: what became of all of them.
        let of_all = outcomes.get(&None).unwrap_or(&Outcome::Lost);
        let settled = |dead_letter_id| Settled {
            dead_letter_id,
            outcome: outcomes.get(&Some(dead_letter_id)).unwrap_or(of_all).clone(),
        };
        Ok(attempts.iter().map(|attempt| settled(attempt.dead_letter_id)).collect())
    }
}

impl PostgresStore {
    pub(super) async fn split_batch(&self, request: &Split<'_>) -> Result<bool> {
        let action = "split a batch";
        let query = self
            .query(SPLIT)
            .bind(request.batch_id)
            .bind(request.keep.to_vec())
            .bind(request.new_batch_id)
            .bind(request.moved.to_vec())
            .bind(request.in_order.to_vec());
        let row = self.row(action, query).await?;
        get(&row, "done").map_err(|problem| StoreError::Database { action, problem })
    }
}

/// What is wrong with an argument is not the caller's to mend here: a trigger found it in a row.
fn about_rows(action: &'static str) -> impl FnOnce(StoreError) -> StoreError {
    move |error| {
        if let StoreError::Invalid(problem) = error { StoreError::Database { action, problem } } else { error }
    }
}

fn clean(given: &str) -> String {
    text::text(given).into_owned()
}

/// Where a pass goes on, when that is not where it was.
fn resume(row: &PgRow) -> std::result::Result<Option<Cursor>, String> {
    let Some(dead_letter_id) = get(row, "resume_id")? else { return Ok(None) };
    let (due_at, dead_lettered_at) = (time(row, "resume_due_at")?, time(row, "resume_dead_lettered_at")?);
    Ok(Some(Cursor { due_at, dead_lettered_at, dead_letter_id }))
}

/// Each once.
fn source_tables(attempts: &[Attempt]) -> Vec<&'static str> {
    let mut tables = Vec::new();
    for attempt in attempts {
        let name = attempt.source_table.name();
        if !tables.contains(&name) {
            tables.push(name);
        }
    }
    tables
}

fn outcome(row: &PgRow) -> Option<(Option<Uuid>, Outcome)> {
    let id = get(row, "dead_letter_id").ok()?;
    let outcome = match get::<&str>(row, "outcome").ok()? {
        "recovered" => Outcome::Recovered,
        "source_present" => Outcome::SourcePresent,
        "gone" => Outcome::Gone,
        "superseded" => Outcome::Superseded,
        "blocked" => Outcome::Blocked,
        _ => Outcome::Failed(get::<Option<String>>(row, "problem").ok().flatten().unwrap_or_default()),
    };
    Some((id, outcome))
}
