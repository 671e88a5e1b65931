//! Reading through all rows, page by page.
//!
//! A page is a range of an index by age, cut before its rows are picked by status. Its last row is given even if it is
//! not picked, since it says where to go on.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::listing::{Read, decision, shown_status};
use super::rows::{columns, read};
use super::values::{Cell, time_text};
use crate::model::decision::Siblings;
use crate::model::{DeadLetter, RecoveryStatus};
use crate::store::{Candidate, History, Place, Recorded, Result, Row, Survey, Surveyed};

/// Before every id, and before every time.
const FRONT: &str = "";

macro_rules! survey {
    ($index:literal, $condition:literal) => {
        concat!(
            "select ",
            columns!(),
            ", (select n.dead_letter_id from wh_dead_letters n where n.source_table = d.source_table \
             and n.source_id = d.source_id and n.incarnation > d.incarnation \
             order by n.incarnation desc, n.dead_lettered_at desc, n.dead_letter_id desc limit 1) as newer, ",
            shown_status!(),
            " in (select value from json_each(?4)) as picked, p.nth = p.total as is_last from (select q.row_number, \
             row_number() over () as nth, count(*) over () as total from (select rowid as row_number \
             from wh_dead_letters indexed by ",
            $index,
            " where ",
            $condition,
            "(dead_lettered_at, dead_letter_id) > (?1, ?2) order by dead_lettered_at, dead_letter_id limit ?3) q) p \
             cross join wh_dead_letters d on d.rowid = p.row_number where picked or is_last order by p.nth"
        )
    };
}

const UNSETTLED: &str = survey!("wh_dead_letters_unrecovered", "recovery_status <> 3 and ");
const ALL: &str = survey!("wh_dead_letters_age", "");
const RECORDED: &str = "select decision_id, decided_at, decision, policy_name, policy_digest, attempt, rule, inputs, \
    note, dead_letter_id, picked from (select p.*, p.inputs is not null and p.policy_digest is not null \
    and p.decided_at >= ?1 as picked, row_number() over () as nth, count(*) over () as total from (select * \
    from wh_dead_letter_decisions where decision_id > ?2 order by decision_id limit ?3) p) \
    where picked or nth = total order by nth";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("survey::UNSETTLED", UNSETTLED), ("survey::ALL", ALL), ("survey::RECORDED", RECORDED)];

/// See [`crate::store::OperatorStore::survey`].
pub(super) async fn survey(store: &SqliteStore, request: &Survey<'_>) -> Result<Surveyed> {
    let mut conn = store.read().await?;
    let settled = request.statuses.contains(&RecoveryStatus::Recovered);
    let statuses: Vec<i32> = request.statuses.iter().map(|status| status.number()).collect();
    let (at, id) = match (request.after, request.since) {
        (Some(place), _) => (place.dead_lettered_at.clone(), place.dead_letter_id.clone()),
        (None, since) => (since.map_or_else(|| FRONT.to_owned(), time_text), FRONT.to_owned()),
    };
    let query = sqlx::query(if settled { ALL } else { UNSETTLED })
        .bind(at)
        .bind(id)
        .bind(request.limit)
        .bind(serde_json::json!(statuses).to_string());
    let rows = query.fetch_all(&mut *conn).await.map_err(|error| store.fault.of("read dead letters", error))?;
    let next = rows.last().map(place).filter(|next| Some(next) != request.after);
    let mut surveyed = Surveyed { now: next.as_ref().map(|_| Timestamp::now()), next, ..Surveyed::default() };
    for row in rows.iter().filter(|row| is_picked(row)) {
        match read(row) {
            Row::Readable(entry) => surveyed.rows.extend(candidate(row, entry, request)),
            Row::Unreadable { dead_letter_id, problem } => surveyed.unreadable.push((dead_letter_id, problem)),
        }
    }
    Ok(surveyed)
}

fn candidate(row: &SqliteRow, entry: DeadLetter, request: &Survey<'_>) -> Option<Candidate> {
    // The range goes by the text of the time, which an application may have written in another form.
    let is_since = request.since.is_none_or(|since| entry.dead_lettered_at >= since);
    let siblings = Siblings { superseded_by: Cell::named(row, "newer").uuid(), predecessor: None };
    is_since.then_some(Candidate { entry, siblings })
}

fn is_picked(row: &SqliteRow) -> bool {
    Cell::named(row, "picked").integer() == Some(1)
}

fn place(row: &SqliteRow) -> Place {
    let text = |column| Cell::named(row, column).into_text().unwrap_or_default();
    Place { dead_lettered_at: text("dead_lettered_at"), dead_letter_id: text("dead_letter_id") }
}

/// See [`crate::store::OperatorStore::history`].
pub(super) async fn history(store: &SqliteStore, request: &History) -> Result<Recorded> {
    let mut conn = store.read().await?;
    recorded(&mut conn, request).await.map_err(|error| store.fault.of("read recorded decisions", error))
}

async fn recorded(conn: &mut sqlx::SqliteConnection, request: &History) -> Read<Recorded> {
    let query = sqlx::query(RECORDED)
        .bind(request.since.map_or_else(|| FRONT.to_owned(), time_text))
        .bind(request.after.map_or_else(|| FRONT.to_owned(), |id| id.to_string()))
        .bind(request.limit);
    let rows = query.fetch_all(conn).await?;
    // An id that is none cannot be gone on from.
    let next = rows.iter().rev().find_map(|row| Cell::at(row, 0).uuid()).filter(|next| Some(*next) != request.after);
    let mut recorded = Recorded { next, ..Recorded::default() };
    for row in rows.iter().filter(|row| is_picked(row)) {
        match (Cell::named(row, "dead_letter_id").uuid(), decision(row)) {
            (Some(id), Some(decision)) => recorded.decisions.push((id, decision)),
            (None, _) | (_, None) => recorded.unreadable += 1,
        }
    }
    Ok(recorded)
}
