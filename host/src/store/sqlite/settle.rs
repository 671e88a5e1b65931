//! Re-emitting the rows of a batch and saying what became of each.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::SqliteStore;
use super::batch::{self, Phase};
use super::connect::Write;
use super::decisions;
use super::fault::describe;
use super::guard::{self, Stop};
use super::line::Line;
use super::rows::with_generation;
use super::source::{Asked, Emission, Tables, re_emit, refuse};
use super::values::time_text;
use crate::model::RecoveryStatus;
use crate::model::decision::Standing;
use crate::store::{Attempt, Outcome, Result, Settle, Settled};

/// An attempt counts in the budget unless a credit (?3) pays for it, which it then uses up.
macro_rules! counted {
    () => {
        "last_recovery_at = ?1, recovery_attempts = recovery_attempts + (?3 is null), \
         policy_errors = 0, policy_error_digest = null"
    };
}

const RECOVERED: &str = concat!(
    "update wh_dead_letters set recovery_status = 3, recovered_at = ?1, next_recovery_at = null, deferral = null, \
     status_note = null, operator_disposition = 0, replay_credit = null, replay_credit_at = null, ",
    counted!(),
    ", retried_on_generations = ",
    with_generation!("generation"),
    " where dead_letter_id = ?2"
);
const STANDS: &str = concat!(
    "update wh_dead_letters set recovery_status = ?4, next_recovery_at = ?5, deferral = ?6, status_note = ?7, \
     replay_credit_at = case when replay_credit is ?3 or ?4 <> 0 then null else replay_credit_at end, \
     replay_credit = case when replay_credit is ?3 or ?4 <> 0 then null else replay_credit end, ",
    counted!(),
    " where dead_letter_id = ?2"
);
/// Takes no attempt, as it takes none when a claim finds out.
const SUPERSEDED: &str = "update wh_dead_letters set recovery_status = 2, next_recovery_at = null, deferral = null, \
    status_note = ?2, policy_errors = 0, policy_error_digest = null where dead_letter_id = ?1";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("settle::RECOVERED", RECOVERED), ("settle::STANDS", STANDS), ("settle::SUPERSEDED", SUPERSEDED)];

/// What the database said of rows that it refused to settle. One fails for it; refused as that too, it is left.
#[derive(Default)]
struct Refused {
    problems: HashMap<Uuid, String>,
    left: HashSet<Uuid>,
}

impl Refused {
    fn learn(&mut self, row: Uuid, error: &sqlx::Error) {
        if self.problems.insert(row, describe(error)).is_some() {
            self.left.insert(row);
        }
    }
}

/// See [`crate::store::RecoveryStore::settle`].
pub(super) async fn settle(store: &SqliteStore, request: &Settle<'_>) -> Result<Vec<Settled>> {
    let mut refused = Refused::default();
    loop {
        let mut write = store.write(request.now).await?;
        match settle_in(&mut write, request, &mut refused).await {
            Ok(settled) => {
                write.commit().await?;
                return Ok(settled);
            }
            // Begun anew: the row fails then, or is left.
            Err(Stop { row: Some(row), error }) if !refused.left.contains(&row) => refused.learn(row, &error),
            Err(stop) => return Err(store.fault.of("settle a batch", stop.error)),
        }
    }
}

async fn settle_in(
    write: &mut Write<'_>,
    request: &Settle<'_>,
    refused: &mut Refused,
) -> std::result::Result<Vec<Settled>, Stop> {
    let lost = |attempt: &Attempt| Settled { dead_letter_id: attempt.dead_letter_id, outcome: Outcome::Lost };
    let Some(ids) = batch::ids(&mut write.conn, request.batch_id, Phase::Recovering).await? else {
        return Ok(request.attempts.iter().map(lost).collect());
    };
    let ids: HashSet<Uuid> = ids.into_iter().collect();
    let streams = batch::streams(&mut write.conn, request.batch_id).await?;
    let mut tables = Tables::default();
    let mut settled = Vec::with_capacity(request.attempts.len());
    let mut line = Line::new(request.streams);
    for attempt in request.attempts {
        let id = attempt.dead_letter_id;
        let outcome = if line.keeps_back(write, attempt).await? {
            Outcome::Blocked
        } else if ids.contains(&id) {
            let (outcome, stands) = settle_row(write, &mut tables, attempt, refused).await?;
            if outcome != Outcome::Superseded {
                line.pass(write, attempt, stands).await?;
            }
            outcome
        } else {
            Outcome::Lost
        };
        settled.push(Settled { dead_letter_id: id, outcome });
    }
    batch::keep(&mut write.conn, request.batch_id, &refused.left).await?;
    line.end(write, request.attempts, streams).await?;
    Ok(settled)
}

/// What became of an attempt, and the status of a row that was not inserted and that nobody else has settled.
type Turn = (Outcome, Option<RecoveryStatus>);

/// Settles a row; where the database refuses that, as a failed one; where it refuses that too, not at all.
async fn settle_row(
    write: &mut Write<'_>,
    tables: &mut Tables,
    attempt: &Attempt,
    refused: &mut Refused,
) -> std::result::Result<Turn, Stop> {
    let id = attempt.dead_letter_id;
    while !refused.left.contains(&id) {
        guard::open(&mut write.conn).await?;
        let tried = turn(write, tables, attempt, refused.problems.get(&id)).await;
        match guard::close(&mut write.conn, Some(id), tried).await? {
            Ok(turn) => return Ok(turn),
            Err(error) => refused.learn(id, &error),
        }
    }
    // It stays open, and so in the way of those behind it.
    let problem = refused.problems.get(&id).cloned().unwrap_or_default();
    Ok((Outcome::Unsettled(problem), Some(RecoveryStatus::Pending)))
}

/// Makes the attempt, or fails it for a problem that is known.
async fn turn(
    write: &mut Write<'_>,
    tables: &mut Tables,
    attempt: &Attempt,
    problem: Option<&String>,
) -> std::result::Result<Turn, sqlx::Error> {
    let id = attempt.dead_letter_id;
    let Emission { outcome, note, credit } = match problem {
        Some(problem) => refuse(&mut write.conn, id, Asked::ByPolicy, problem).await?,
        None => re_emit(&mut write.conn, tables, id, Asked::ByPolicy, write.now).await?,
    };
    let held = Standing { status: RecoveryStatus::HoldForReview, next_recovery_at: None, deferral: None };
    let mut stands = None;
    match &outcome {
        Outcome::Lost | Outcome::Blocked | Outcome::Unsettled(_) => return Ok((Outcome::Lost, None)),
        Outcome::Recovered => {
            let query = sqlx::query(RECOVERED).bind(time_text(write.now)).bind(id.to_string());
            query.bind(attempt.credit.clone()).execute(&mut write.conn).await?;
        }
        Outcome::SourcePresent | Outcome::Gone => {
            stands = Some(held.status);
            stand(write, attempt, held, note.clone()).await?;
        }
        Outcome::Superseded => {
            let query = sqlx::query(SUPERSEDED).bind(id.to_string()).bind(note.clone());
            query.execute(&mut write.conn).await?;
        }
        Outcome::Failed(_) => {
            // A credit that was granted meanwhile wants its own attempt.
            let granted = credit != attempt.credit;
            let now = Standing { status: RecoveryStatus::Pending, next_recovery_at: Some(write.now), deferral: None };
            let standing = if granted { now } else { attempt.on_failure };
            stands = Some(standing.status);
            stand(write, attempt, standing, note.clone()).await?;
        }
    }
    decisions::record_attempt(write, attempt, note.unwrap_or_else(|| "recovered".to_owned())).await?;
    Ok((outcome, stands))
}

async fn stand(
    write: &mut Write<'_>,
    attempt: &Attempt,
    standing: Standing,
    note: Option<String>,
) -> std::result::Result<(), sqlx::Error> {
    sqlx::query(STANDS)
        .bind(time_text(write.now))
        .bind(attempt.dead_letter_id.to_string())
        .bind(attempt.credit.clone())
        .bind(standing.status.number())
        .bind(standing.next_recovery_at.map(time_text))
        .bind(standing.deferral.map(|deferral| deferral.name()))
        .bind(note)
        .execute(&mut write.conn)
        .await?;
    Ok(())
}
