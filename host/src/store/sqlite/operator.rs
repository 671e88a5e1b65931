//! Operators' verbs.

use uuid::Uuid;

use super::SqliteStore;
use super::connect::Write;
use super::decisions;
use super::listing::{bind_filter, matches_filter};
use super::rows::live_ids;
use super::streams;
use super::values::{Cell, time_text};
use crate::store::operator::Unchanged;
use crate::store::{ChangeOutcome, OperatorChange, OperatorVerb, Result, StoreError, Target};

const MATCHING: &str =
    concat!("select d.dead_letter_id from wh_dead_letters d where ", matches_filter!(), " order by d.dead_letter_id");
const STATE: &str = concat!(
    "select d.recovery_status, d.dead_letter_id in (",
    live_ids!("?2"),
    ") from wh_dead_letters d where d.dead_letter_id = ?1"
);
const RETRY: &str = "update wh_dead_letters set recovery_status = 0, next_recovery_at = ?1, replay_credit = '*', \
    replay_credit_at = ?1, operator_disposition = 0, deferral = null, status_note = null, operator_actor = ?3, \
    operator_notes = ?4 where dead_letter_id = ?2";
const END: &str = "update wh_dead_letters set recovery_status = ?5, operator_disposition = ?6, \
    next_recovery_at = null, deferral = null, status_note = ?7, operator_actor = ?3, operator_notes = ?4 \
    where dead_letter_id = ?2";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("operator::MATCHING", MATCHING), ("operator::STATE", STATE), ("operator::RETRY", RETRY), ("operator::END", END)];

/// See [`crate::store::OperatorStore::change`].
pub(super) async fn change(store: &SqliteStore, request: &OperatorChange<'_>) -> Result<Vec<ChangeOutcome>> {
    let failed = |error| store.fault.of("change dead letters", error);
    let mut write = store.write(request.now).await?;
    let ids = match &request.target {
        Target::Ids(ids) => ids.clone(),
        Target::Filter(filter) if filter.is_empty() => {
            return Err(StoreError::Invalid("an empty filter would change every dead letter; name a condition".into()));
        }
        Target::Filter(filter) => {
            let rows = bind_filter(MATCHING, filter).fetch_all(&mut write.conn).await.map_err(failed)?;
            rows.iter().filter_map(|row| Cell::at(row, 0).uuid()).collect()
        }
    };
    let mut outcomes = Vec::with_capacity(ids.len());
    for dead_letter_id in ids {
        let result = change_one(&mut write, request, dead_letter_id).await.map_err(failed)?;
        outcomes.push(ChangeOutcome { dead_letter_id, result });
    }
    if request.verb != OperatorVerb::Retry {
        let changed = outcomes.iter().filter(|outcome| outcome.result.is_ok());
        let changed: Vec<String> = changed.map(|outcome| outcome.dead_letter_id.to_string()).collect();
        streams::wake_behind(&mut write, changed).await.map_err(failed)?;
    }
    write.commit().await?;
    if outcomes.iter().any(|outcome| outcome.result.is_ok()) {
        store.signals.ready();
    }
    Ok(outcomes)
}

async fn change_one(
    write: &mut Write<'_>,
    request: &OperatorChange<'_>,
    id: Uuid,
) -> std::result::Result<std::result::Result<(), Unchanged>, sqlx::Error> {
    let id = id.to_string();
    let Some(state) =
        sqlx::query(STATE).bind(id.clone()).bind(time_text(write.now)).fetch_optional(&mut write.conn).await?
    else {
        return Ok(Err(Unchanged::UnknownId));
    };
    if Cell::at(&state, 0) == Cell::Integer(3) {
        return Ok(Err(Unchanged::AlreadyRecovered));
    }
    if Cell::at(&state, 1) == Cell::Integer(1) {
        return Ok(Err(Unchanged::BeingRecovered));
    }
    let common = |statement: &'static str| {
        sqlx::query(statement)
            .bind(time_text(write.now))
            .bind(id.clone())
            .bind(request.actor.to_owned())
            .bind(request.note.map(str::to_owned))
    };
    let query = match request.verb {
        OperatorVerb::Retry => common(RETRY),
        OperatorVerb::Hold => common(END).bind(2).bind(0).bind(format!("held by {}", request.actor)),
        OperatorVerb::HoldIndefinitely => {
            common(END).bind(2).bind(2).bind(format!("held indefinitely by {}", request.actor))
        }
        OperatorVerb::GiveUp => common(END).bind(4).bind(3).bind(format!("given up by {}", request.actor)),
    };
    query.execute(&mut write.conn).await?;
    decisions::record_request(write, &id, request.verb.name()).await?;
    Ok(Ok(()))
}
