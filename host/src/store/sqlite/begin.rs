//! Carrying out the decisions that re-emit nothing.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use super::SqliteStore;
use super::batch::{self, Phase};
use super::connect::Write;
use super::values::{Cell, json_ids, time_text};
use super::{decisions, streams};
use crate::model::{RecoveryStatus, StreamMode};
use crate::store::{Begin, Begun, Ending, Result};

const END: &str = "update wh_dead_letters set recovery_status = ?, next_recovery_at = ?, deferral = ?, \
    status_note = ?, policy_errors = ?, policy_error_digest = ? \
    where dead_letter_id = ? and recovery_status < 2 and operator_disposition < 2 and recovered_at is null \
    and next_recovery_at is ? and replay_credit is ?";
/// Those of the rows ?1 that stand in the way of others still, held ones with ?2.
const STANDING: &str = "select dead_letter_id from wh_dead_letters where dead_letter_id in (select value from json_each(?1)) \
    and recovery_status < 3 and operator_disposition <> 3 \
    and (?2 or (recovery_status <> 2 and operator_disposition <> 2))";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("begin::END", END), ("begin::STANDING", STANDING)];

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
    let standing = standing(write, request).await?;
    let mut ended = Vec::new();
    let mut out_of_the_way = Vec::new();
    for ending in request.endings.iter().filter(|ending| ids.contains(&ending.dead_letter_id)) {
        let stands = ending.seen.predecessor.is_none_or(|predecessor| standing.contains(&predecessor));
        if stands && end(write, ending).await? {
            ended.push(ending.dead_letter_id);
            if is_out_of_the_way(ending) {
                out_of_the_way.push(ending.dead_letter_id.to_string());
            }
        }
    }
    if !out_of_the_way.is_empty() {
        streams::wake_behind(write, out_of_the_way).await?;
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

/// Those of the rows that others wait for that stand in their way still.
async fn standing(write: &mut Write<'_>, request: &Begin<'_>) -> std::result::Result<HashSet<Uuid>, sqlx::Error> {
    let predecessors: HashSet<Uuid> = request.endings.iter().filter_map(|ending| ending.seen.predecessor).collect();
    if predecessors.is_empty() {
        return Ok(predecessors);
    }
    let query = sqlx::query(STANDING).bind(json_ids(predecessors)).bind(request.streams.held_blocks);
    let rows = query.fetch_all(&mut write.conn).await?;
    Ok(rows.iter().filter_map(|row| Cell::at(row, 0).uuid()).collect())
}

/// Whether a row is in nobody's way any more: it is held or given up, or takes no part in the order of its stream.
fn is_out_of_the_way(ending: &Ending) -> bool {
    let rule = ending.record.as_ref().and_then(|record| serde_json::from_str::<Value>(&record.ruling.rule).ok());
    let mode = rule.as_ref().and_then(|rule| rule.get("stream_mode")).and_then(Value::as_str);
    ending.standing.status != RecoveryStatus::Pending || mode == Some(StreamMode::PerMessage.name())
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
        decisions::record(write, ending.dead_letter_id, ending.decision, record, ending.note.clone()).await?;
    }
    Ok(true)
}
