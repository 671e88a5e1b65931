//! Claiming: taking due rows for a batch.

use std::collections::HashSet;

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::connect::Write;
use super::fault::{describe, is_constraint};
use super::rows::{columns, read};
use super::streams::{self, place};
use super::values::{Cell, json_ids, json_list, time_text};
use crate::model::DeadLetter;
use crate::model::decision::Siblings;
use crate::model::time::later;
use crate::store::batch::{unholdable, unreadable_note};
use crate::store::{Candidate, Claim, ClaimRequest, Cursor, Result, Row};

/// How long a generation's credit keeps other generations away.
pub(super) const RESERVED_FOR: std::time::Duration = std::time::Duration::from_secs(60 * 60);

/// The streams in live batches, as a subquery.
macro_rules! batch_streams {
    () => {
        "select e.value from wh_recovery_batches b, json_each(b.streams) e"
    };
}

/// The stream of a row `d` as batches name it; NULL for none.
macro_rules! stream_key {
    () => {
        "case when d.stream_id is null or d.stream_id = '00000000-0000-0000-0000-000000000000' then null \
         when d.source_table = 'wh_perspective_events' \
         then d.source_table || '|' || d.stream_id || '|' || coalesce(d.perspective_name, '') \
         else d.source_table || '|' || d.stream_id end"
    };
}

/// What keeps an open row from a host of generation ?2 at ?1 less the time of a reservation (?3).
macro_rules! free {
    () => {
        concat!(
            "d.recovery_status < 2 and d.operator_disposition < 2 and d.recovered_at is null \
             and d.dead_letter_id not in (",
            $crate::store::sqlite::rows::batch_ids!(),
            ") and (",
            stream_key!(),
            " is null or ",
            stream_key!(),
            " not in (",
            batch_streams!(),
            ")) and (d.replay_credit is null or d.replay_credit in ('*', ?2) or d.replay_credit_at is null \
             or d.replay_credit_at <= ?3)"
        )
    };
}
pub(super) use free;
pub(super) use {batch_streams, stream_key};

macro_rules! claim {
    ($index:literal, $more:expr, $condition:expr, $order:expr) => {
        concat!(
            "select ",
            columns!(),
            ", d.rowid as row_number, ",
            stream_key!(),
            " as stream_key, (select n.dead_letter_id from wh_dead_letters n where n.source_table = d.source_table \
             and n.source_id = d.source_id and n.incarnation > d.incarnation \
             order by n.incarnation desc, n.dead_lettered_at desc, n.dead_letter_id desc limit 1) as newer",
            $more,
            " from wh_dead_letters d indexed by ",
            $index,
            " where ",
            $condition,
            " order by ",
            $order,
            " limit ?4"
        )
    };
}

/// The rows after a place, in the order in which they fall due.
macro_rules! claim_after {
    ($index:literal, $due:literal) => {
        claim!(
            $index,
            "",
            concat!(
                $due,
                " and coalesce(d.next_recovery_at, d.dead_lettered_at) >= ?5 \
                 and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id) \
                 > (?5, ?6, ?7) and ",
                free!()
            ),
            "coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id"
        )
    };
}

const DUE: &str = claim_after!("wh_dead_letters_due", "coalesce(d.next_recovery_at, d.dead_lettered_at) <= ?1");
/// Rows without a due time are due at once, even those that seem to have died in the future.
const DUE_AHEAD: &str = claim_after!("wh_dead_letters_age", "d.dead_lettered_at > ?1 and d.next_recovery_at is null");
/// The first open rows of the stream ?5: whether each is due, and whether it waits for an earlier one; neither of those
/// that are reserved for another generation.
const OPEN_IN_STREAM: &str = claim!(
    "wh_dead_letters_stream_order",
    concat!(
        ", (d.next_recovery_at is null or d.next_recovery_at <= ?1) and ",
        free!(),
        " as is_due, d.deferral is 'stream' and ",
        free!(),
        " as waits"
    ),
    concat!(
        stream_key!(),
        " = ?5 and d.stream_id is not null and d.recovery_status < 2 and d.operator_disposition < 2"
    ),
    place!()
);

const INSERT_BATCH: &str = "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, \
    started_at, expires_at) values (?, ?, ?, 'deciding', ?, ?, ?, ?)";
const STREAMS_IN_HAND: &str = "select exists (select 1 from wh_recovery_batches where streams <> '[]')";
/// Puts the times into the form that the order of claims rests on, where an application wrote another.
const NORMALISE: &str = "update wh_dead_letters set dead_lettered_at = ?, next_recovery_at = ? where rowid = ?";
const HOLD_UNREADABLE: &str = "update wh_dead_letters set recovery_status = 2, next_recovery_at = null, \
    deferral = null, status_note = ? where rowid = ?";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("claim::DUE", DUE),
    ("claim::DUE_AHEAD", DUE_AHEAD),
    ("claim::OPEN_IN_STREAM", OPEN_IN_STREAM),
    ("claim::INSERT_BATCH", INSERT_BATCH),
    ("claim::STREAMS_IN_HAND", STREAMS_IN_HAND),
    ("claim::NORMALISE", NORMALISE),
    ("claim::HOLD_UNREADABLE", HOLD_UNREADABLE),
];

/// See [`crate::store::RecoveryStore::claim`].
pub(super) async fn claim(store: &SqliteStore, request: &ClaimRequest<'_>) -> Result<Claim> {
    let mut write = store.write(request.now).await?;
    let claim = claim_in(&mut write, request).await.map_err(|error| store.fault.of("claim dead letters", error))?;
    write.commit().await?;
    Ok(claim)
}

async fn claim_in(write: &mut Write<'_>, request: &ClaimRequest<'_>) -> std::result::Result<Claim, sqlx::Error> {
    let mut found = select(write, DUE, request, request.max).await?;
    let left = request.max.saturating_sub(count(&found));
    if left > 0 {
        found.extend(select(write, DUE_AHEAD, request, left).await?);
    }
    // Whether a row was passed is not told here: going on from the same place is cheap where nothing holds a snapshot.
    let streams_in_hand = sqlx::query(STREAMS_IN_HAND).fetch_one(&mut write.conn).await?.try_get::<bool, _>(0)?;
    let mut resume = found.iter().rev().find_map(place_of);
    if request.whole_streams {
        (found, resume) = bring_along(write, request, found).await?;
    }
    let full = count(&found) == request.max;
    let mut claim = Claim { now: write.now, rows: Vec::new(), cursor: None, crowded: false, unreadable: Vec::new() };
    let (mut streams, mut stays) = (Vec::new(), None);
    for row in &found {
        let number = Cell::named(row, "row_number").integer().unwrap_or_default();
        match read(row) {
            Row::Readable(entry) => {
                normalise(write, row, number, &entry).await?;
                streams.extend(Cell::named(row, "stream_key").into_text());
                let siblings = Siblings { superseded_by: Cell::named(row, "newer").uuid(), predecessor: None };
                claim.rows.push(Candidate { entry, siblings });
            }
            Row::Unreadable { dead_letter_id, problem } => {
                stays = hold(write, number, &dead_letter_id, &problem).await?.or(stays);
                claim.unreadable.push((dead_letter_id, problem));
            }
        }
    }
    // The rest of the claim is worth more than one that cannot even be held; where there is no rest, it is told, since it
    // would be claimed again without end.
    if let Some(problem) = stays.filter(|_| claim.rows.is_empty()) {
        return Err(sqlx::Error::Decode(problem.into()));
    }
    if full {
        claim.cursor = resume.filter(|_| !streams_in_hand).or(request.after).or(Some(Cursor::FRONT));
        claim.crowded = streams_in_hand;
    }
    claim.rows.sort_by_key(|row| cursor(&row.entry));
    if !claim.unreadable.is_empty() {
        streams::wake_behind(write, claim.unreadable.iter().map(|(id, _)| id.clone())).await?;
    }
    if !claim.rows.is_empty() {
        insert_batch(write, request, &claim.rows, streams).await?;
    }
    Ok(claim)
}

/// Holds a row that cannot be read; what keeps it from being held, if anything does.
async fn hold(
    write: &mut Write<'_>,
    number: i64,
    dead_letter_id: &str,
    problem: &str,
) -> std::result::Result<Option<String>, sqlx::Error> {
    match sqlx::query(HOLD_UNREADABLE).bind(unreadable_note(problem)).bind(number).execute(&mut write.conn).await {
        Err(error) if is_constraint(&error) => {
            let problem = describe(&error);
            tracing::warn!(dead_letter_id, problem, "an unreadable dead letter stays due");
            Ok(Some(unholdable(dead_letter_id, &problem)))
        }
        other => other.map(|_| None),
    }
}

/// The rows with those of their streams that come along, as far as there is room; and the place of the last row up to
/// which all are among them.
async fn bring_along(
    write: &mut Write<'_>,
    request: &ClaimRequest<'_>,
    found: Vec<SqliteRow>,
) -> std::result::Result<(Vec<SqliteRow>, Option<Cursor>), sqlx::Error> {
    let (mut rows, mut resume) = (Vec::new(), None);
    let (mut streams, mut numbers) = (HashSet::new(), HashSet::new());
    let number = |row: &SqliteRow| Cell::named(row, "row_number").integer();
    for row in found {
        let key = Cell::named(&row, "stream_key").into_text();
        if let Some(key) = key.filter(|key| streams.insert(key.clone())) {
            let query = sqlx::query(OPEN_IN_STREAM)
                .bind(time_text(write.now))
                .bind(request.generation.to_owned())
                .bind(time_text(reserved_since(write.now)))
                .bind(request.max.saturating_sub(count(&rows)))
                .bind(key);
            let open = query.fetch_all(&mut write.conn).await?;
            let is = |row: &SqliteRow, column| Cell::named(row, column).integer() == Some(1);
            // What waits comes with the one that it waits for; the first of all waits for a held one.
            let brings = open.first().is_some_and(|row| is(row, "is_due"));
            let goes_along = |row: &SqliteRow| is(row, "is_due") || is(row, "waits");
            let before = rows.len();
            rows.extend(open.into_iter().take_while(|row| brings && goes_along(row)));
            numbers.extend(rows.iter().skip(before).map(number));
        }
        let place = place_of(&row);
        if numbers.insert(number(&row)) {
            if count(&rows) >= request.max {
                break;
            }
            rows.push(row);
        }
        resume = place.or(resume);
    }
    Ok((rows, resume))
}

fn place_of(row: &SqliteRow) -> Option<Cursor> {
    match read(row) {
        Row::Readable(entry) => Some(cursor(&entry)),
        Row::Unreadable { .. } => None,
    }
}

fn count(rows: &[SqliteRow]) -> u32 {
    u32::try_from(rows.len()).unwrap_or(u32::MAX)
}

async fn select(
    write: &mut Write<'_>,
    statement: &'static str,
    request: &ClaimRequest<'_>,
    max: u32,
) -> std::result::Result<Vec<SqliteRow>, sqlx::Error> {
    let after = request.after.unwrap_or(Cursor::FRONT);
    sqlx::query(statement)
        .bind(time_text(write.now))
        .bind(request.generation.to_owned())
        .bind(time_text(reserved_since(write.now)))
        .bind(max)
        .bind(cursor_time(after.due_at))
        .bind(cursor_time(after.dead_lettered_at))
        .bind(after.dead_letter_id.to_string())
        .fetch_all(&mut write.conn)
        .await
}

/// A cursor's time as text; the front stands before every text.
fn cursor_time(time: Timestamp) -> String {
    if time == Timestamp::MIN { String::new() } else { time_text(time) }
}

/// Credits granted up to this time no longer reserve their rows.
pub(super) fn reserved_since(now: Timestamp) -> Timestamp {
    jiff::SignedDuration::try_from(RESERVED_FOR).ok().and_then(|hour| now.checked_sub(hour).ok()).unwrap_or(now)
}

fn cursor(entry: &DeadLetter) -> Cursor {
    Cursor {
        due_at: entry.next_recovery_at.unwrap_or(entry.dead_lettered_at),
        dead_lettered_at: entry.dead_lettered_at,
        dead_letter_id: entry.dead_letter_id,
    }
}

async fn normalise(
    write: &mut Write<'_>,
    row: &SqliteRow,
    number: i64,
    entry: &DeadLetter,
) -> std::result::Result<(), sqlx::Error> {
    let died = time_text(entry.dead_lettered_at);
    let next = entry.next_recovery_at.map(time_text);
    let stands = |column: &str| Cell::named(row, column).into_text();
    if stands("dead_lettered_at").as_ref() != Some(&died) || stands("next_recovery_at") != next {
        sqlx::query(NORMALISE).bind(died).bind(next).bind(number).execute(&mut write.conn).await?;
    }
    Ok(())
}

async fn insert_batch(
    write: &mut Write<'_>,
    request: &ClaimRequest<'_>,
    rows: &[Candidate],
    mut streams: Vec<String>,
) -> std::result::Result<(), sqlx::Error> {
    streams.sort_unstable();
    streams.dedup();
    sqlx::query(INSERT_BATCH)
        .bind(request.batch_id.to_string())
        .bind(request.owner.to_string())
        .bind(request.generation.to_owned())
        .bind(json_ids(rows.iter().map(|row| row.entry.dead_letter_id)))
        .bind(json_list(streams))
        .bind(time_text(write.now))
        .bind(time_text(later(write.now, request.lease)))
        .execute(&mut write.conn)
        .await?;
    Ok(())
}
