//! The verbs that applications share with the host, but moving and sweeping.

use jiff::Timestamp;
use uuid::Uuid;

use super::SqliteStore;
use super::connect::Write;
use super::fault::{describe, is_infrastructure};
use super::guard;
use super::rows::{columns, live_ids, read, with_generation};
use super::source::{Asked, Tables, re_emit};
use super::streams;
use super::values::time_text;
use crate::model::RecoveryStatus;
use crate::store::{Outcome, Result, Row};

const FETCH: &str = concat!(
    "select ",
    columns!(),
    " from wh_dead_letters d where d.recovery_status < 2 and d.recovered_at is null and d.operator_disposition < 2 \
     and (d.next_recovery_at is null or d.next_recovery_at <= ?) order by d.dead_lettered_at, d.dead_letter_id limit ?"
);

const RECOVERABLE: &str = concat!(
    "select 1 from wh_dead_letters d \
     where d.dead_letter_id = ?1 and d.recovery_status = 0 and d.dead_letter_id not in (",
    live_ids!("?2"),
    ")"
);
const SUPERSEDED: &str = "update wh_dead_letters set recovery_status = 2, next_recovery_at = null, deferral = null, \
    status_note = ?3 where dead_letter_id = ?2";
const RECOVERED: &str = concat!(
    "update wh_dead_letters set recovery_status = 3, recovered_at = ?1, last_recovery_at = ?1, \
     next_recovery_at = null, deferral = null, status_note = ?3, operator_disposition = 0, \
     replay_credit = null, replay_credit_at = null, \
     recovery_attempts = recovery_attempts + 1, retried_on_generations = ",
    with_generation!("generation"),
    " where dead_letter_id = ?2"
);
const REFUSED: &str = "update wh_dead_letters set recovery_status = 2, last_recovery_at = ?1, \
    recovery_attempts = recovery_attempts + 1, next_recovery_at = null, deferral = null, status_note = ?3, \
    replay_credit = null, replay_credit_at = null where dead_letter_id = ?2";
const FAILED: &str = "update wh_dead_letters set last_recovery_at = ?1, recovery_attempts = recovery_attempts + 1, \
    status_note = ?3 where dead_letter_id = ?2";

const MARK: &str = "update wh_dead_letters set recovery_status = ?, next_recovery_at = null, deferral = null, \
    status_note = null where dead_letter_id = ? and recovery_status <> 3";
const SCHEDULE: &str = "update wh_dead_letters set recovery_status = 0, next_recovery_at = ?, deferral = 'operator', \
    status_note = null where dead_letter_id = ? and recovery_status <> 3";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("verbs::FETCH", FETCH),
    ("verbs::RECOVERABLE", RECOVERABLE),
    ("verbs::SUPERSEDED", SUPERSEDED),
    ("verbs::RECOVERED", RECOVERED),
    ("verbs::REFUSED", REFUSED),
    ("verbs::FAILED", FAILED),
    ("verbs::MARK", MARK),
    ("verbs::SCHEDULE", SCHEDULE),
];

/// See [`crate::store::Verbs::fetch_dead_letters_due`].
pub(super) async fn fetch_due(store: &SqliteStore, now: Option<Timestamp>, max: u32) -> Result<Vec<Row>> {
    let now = time_text(now.unwrap_or_else(Timestamp::now));
    let mut conn = store.read().await?;
    let rows = sqlx::query(FETCH).bind(now).bind(max).fetch_all(&mut *conn).await;
    Ok(rows.map_err(|error| store.fault.of("fetch the dead letters that are due", error))?.iter().map(read).collect())
}

/// See [`crate::store::Verbs::recover_dead_letter`].
pub(super) async fn recover(store: &SqliteStore, id: Uuid, now: Option<Timestamp>) -> Result<bool> {
    let failed = |error| store.fault.of("recover a dead letter", error);
    let mut write = store.write(now).await?;
    let outcome = match recover_in(&mut write, id, None).await {
        Err(error) if !is_infrastructure(&error) => {
            // A trigger took the transaction along, or the row may not be settled: it fails for it.
            drop(write);
            write = store.write(now).await?;
            recover_in(&mut write, id, Some(&describe(&error))).await
        }
        outcome => outcome,
    }
    .map_err(failed)?;
    let woken = match outcome {
        Outcome::Lost | Outcome::Failed(_) | Outcome::Blocked | Outcome::Unsettled(_) => 0,
        Outcome::Recovered | Outcome::SourcePresent | Outcome::Gone | Outcome::Superseded => {
            streams::wake_behind(&mut write, [id.to_string()]).await.map_err(failed)?
        }
    };
    write.commit().await?;
    if woken > 0 {
        store.signals.ready();
    }
    Ok(outcome == Outcome::Recovered)
}

async fn recover_in(
    write: &mut Write<'_>,
    id: Uuid,
    problem: Option<&str>,
) -> std::result::Result<Outcome, sqlx::Error> {
    let query = sqlx::query(RECOVERABLE).bind(id.to_string()).bind(time_text(write.now));
    if query.fetch_optional(&mut write.conn).await?.is_none() {
        return Ok(Outcome::Lost);
    }
    let mut tables = Tables::default();
    let emission = re_emit(&mut write.conn, &mut tables, id, Asked::ByName, problem, write.now).await?;
    let update = match &emission.outcome {
        Outcome::Recovered => RECOVERED,
        Outcome::SourcePresent | Outcome::Gone => REFUSED,
        Outcome::Superseded => SUPERSEDED,
        Outcome::Failed(_) => FAILED,
        Outcome::Lost | Outcome::Blocked | Outcome::Unsettled(_) => return Ok(Outcome::Lost),
    };
    let query = sqlx::query(update).bind(time_text(write.now)).bind(id.to_string()).bind(emission.note);
    guard::changed(&query.execute(&mut write.conn).await?)?;
    Ok(emission.outcome)
}

/// Ends a row as held or failed, whatever it was but recovered.
pub(super) async fn mark(store: &SqliteStore, id: Uuid, status: RecoveryStatus) -> Result<()> {
    let mut write = store.write(None).await?;
    let query = sqlx::query(MARK).bind(status.number()).bind(id.to_string());
    let failed = |error| store.fault.of("mark a dead letter", error);
    query.execute(&mut write.conn).await.map_err(failed)?;
    let woken = streams::wake_behind(&mut write, [id.to_string()]).await.map_err(failed)?;
    write.commit().await?;
    if woken > 0 {
        store.signals.ready();
    }
    Ok(())
}

/// See [`crate::store::Verbs::schedule_next_dead_letter_attempt`].
pub(super) async fn schedule(store: &SqliteStore, id: Uuid, at: Timestamp) -> Result<()> {
    let mut write = store.write(None).await?;
    let query = sqlx::query(SCHEDULE).bind(time_text(at)).bind(id.to_string());
    query.execute(&mut write.conn).await.map_err(|error| store.fault.of("schedule a dead letter", error))?;
    write.commit().await?;
    store.signals.ready();
    Ok(())
}
