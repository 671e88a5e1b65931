//! Re-emitting the rows of a batch and saying what became of each.

use std::collections::HashSet;

use uuid::Uuid;

use super::SqliteStore;
use super::batch::{self, Phase};
use super::connect::Write;
use super::decisions;
use super::guard;
use super::line::Line;
use super::rows::with_generation;
use super::source::{Asked, Emission, Tables, re_emit};
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

/// See [`crate::store::RecoveryStore::settle`].
pub(super) async fn settle(store: &SqliteStore, request: &Settle<'_>) -> Result<Vec<Settled>> {
    let mut write = store.write(request.now).await?;
    let settled = settle_in(&mut write, request).await.map_err(|error| store.fault.of("settle a batch", error))?;
    write.commit().await?;
    Ok(settled)
}

async fn settle_in(write: &mut Write<'_>, request: &Settle<'_>) -> std::result::Result<Vec<Settled>, sqlx::Error> {
    let lost = |attempt: &Attempt| Settled { dead_letter_id: attempt.dead_letter_id, outcome: Outcome::Lost };
    let Some(ids) = batch::ids(&mut write.conn, request.batch_id, Phase::Recovering).await? else {
        return Ok(request.attempts.iter().map(lost).collect());
    };
    let ids: HashSet<Uuid> = ids.into_iter().collect();
    let streams = batch::streams(&mut write.conn, request.batch_id).await?;
    sqlx::query(batch::DELETE).bind(request.batch_id.to_string()).execute(&mut write.conn).await?;
    let mut tables = Tables::default();
    let mut settled = Vec::with_capacity(request.attempts.len());
    let mut line = Line::new(request.streams);
    for attempt in request.attempts {
        let id = attempt.dead_letter_id;
        let outcome = if line.keeps_back(write, attempt).await? {
            Outcome::Blocked
        } else if ids.contains(&id) {
            let (outcome, stands) = settle_row(write, &mut tables, attempt, request.refusal).await?;
            if outcome != Outcome::Superseded {
                line.pass(write, attempt, stands).await?;
            }
            outcome
        } else {
            Outcome::Lost
        };
        settled.push(Settled { dead_letter_id: id, outcome });
    }
    line.end(write, request.attempts, streams).await?;
    Ok(settled)
}

/// What became of an attempt, and the status of a row that was not inserted and that nobody else has settled.
async fn settle_row(
    write: &mut Write<'_>,
    tables: &mut Tables,
    attempt: &Attempt,
    refusal: Option<&str>,
) -> std::result::Result<(Outcome, Option<RecoveryStatus>), sqlx::Error> {
    let id = attempt.dead_letter_id;
    let emission = re_emit(&mut write.conn, tables, id, Asked::ByPolicy, refusal, write.now).await?;
    let Emission { outcome, note, credit } = emission;
    let held = Standing { status: RecoveryStatus::HoldForReview, next_recovery_at: None, deferral: None };
    let mut stands = None;
    match &outcome {
        Outcome::Lost | Outcome::Blocked | Outcome::Unsettled(_) => return Ok((Outcome::Lost, None)),
        Outcome::Recovered => {
            let query = sqlx::query(RECOVERED).bind(time_text(write.now)).bind(id.to_string());
            guard::changed(&query.bind(attempt.credit.clone()).execute(&mut write.conn).await?)?;
        }
        Outcome::SourcePresent | Outcome::Gone => {
            stands = Some(held.status);
            stand(write, attempt, held, note.clone()).await?;
        }
        Outcome::Superseded => {
            let query = sqlx::query(SUPERSEDED).bind(id.to_string()).bind(note.clone());
            guard::changed(&query.execute(&mut write.conn).await?)?;
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
    let query = sqlx::query(STANDS)
        .bind(time_text(write.now))
        .bind(attempt.dead_letter_id.to_string())
        .bind(attempt.credit.clone())
        .bind(standing.status.number())
        .bind(standing.next_recovery_at.map(time_text))
        .bind(standing.deferral.map(|deferral| deferral.name()))
        .bind(note);
    guard::changed(&query.execute(&mut write.conn).await?)
}
