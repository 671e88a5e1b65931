//! Carrying out the decisions that re-emit nothing.

use std::collections::HashSet;

use uuid::Uuid;

use super::SqliteStore;
use super::batch::{self, Phase};
use super::connect::Write;
use super::decisions;
use super::values::{json_ids, time_text};
use crate::store::{Begin, Begun, Ending, Result};

const END: &str = "update wh_dead_letters set recovery_status = ?, next_recovery_at = ?, deferral = ?, \
    status_note = ?, policy_errors = ?, policy_error_digest = ? \
    where dead_letter_id = ? and recovery_status < 2 and operator_disposition < 2 and recovered_at is null \
    and next_recovery_at is ? and replay_credit is ?";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("begin::END", END)];

/// See [`crate::store::RecoveryStore::begin`].
pub(super) async fn begin(store: &SqliteStore, request: &Begin<'_>) -> Result<Begun> {
    let mut write = store.write(request.now).await?;
    let begun = begin_in(&mut write, request).await.map_err(|error| store.fault.of("begin a batch", error))?;
    write.commit().await?;
    Ok(begun)
}

async fn begin_in(write: &mut Write<'_>, request: &Begin<'_>) -> std::result::Result<Begun, sqlx::Error> {
    let Some(ids) = batch::ids(&mut write.conn, request.batch_id, Phase::Deciding).await? else {
        return Ok(Begun::Lost);
    };
    let ids: HashSet<Uuid> = ids.into_iter().collect();
    let mut ended = Vec::new();
    for ending in request.endings.iter().filter(|ending| ids.contains(&ending.dead_letter_id)) {
        if end(write, ending).await? {
            ended.push(ending.dead_letter_id);
        }
    }
    let recover: Vec<Uuid> = request.recover.iter().copied().filter(|id| ids.contains(id)).collect();
    let batch_id = request.batch_id.to_string();
    if recover.is_empty() {
        sqlx::query(batch::DELETE).bind(batch_id).execute(&mut write.conn).await?;
    } else {
        let query = sqlx::query(batch::START_RECOVERING).bind(json_ids(recover)).bind(batch_id);
        query.execute(&mut write.conn).await?;
    }
    Ok(Begun::Done { ended })
}

async fn end(write: &mut Write<'_>, ending: &Ending) -> std::result::Result<bool, sqlx::Error> {
    let done = sqlx::query(END)
        .bind(ending.standing.status.number())
        .bind(ending.standing.next_recovery_at.map(time_text))
        .bind(ending.standing.deferral.map(|deferral| deferral.name()))
        .bind(ending.note.clone())
        .bind(ending.policy_errors)
        .bind(ending.policy_error_digest.clone())
        .bind(ending.dead_letter_id.to_string())
        .bind(ending.seen.next_recovery_at.map(time_text))
        .bind(ending.seen.replay_credit.clone())
        .execute(&mut write.conn)
        .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    if let Some(record) = &ending.record {
        decisions::record(write, ending.dead_letter_id, record, record.note.clone()).await?;
    }
    Ok(true)
}
