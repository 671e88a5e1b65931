//! Which rows can be taken: those that are due and that nobody has, and what of their streams comes along.

use std::collections::HashSet;

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;

use super::claim::{batch_streams, free, reserved_since, stream_key};
use super::connect::Write;
use super::rows::{columns, read};
use super::streams::place;
use super::values::{Cell, time_text};
use crate::model::DeadLetter;
use crate::store::{ClaimRequest, Cursor, Row};

type Read<T> = std::result::Result<T, sqlx::Error>;

macro_rules! claim {
    ($table:expr, $condition:expr, $order:expr) => {
        concat!(
            "select ",
            columns!(),
            ", d.rowid as row_number, ",
            stream_key!(),
            " as stream_key, (select n.dead_letter_id from wh_dead_letters n where n.source_table = d.source_table \
             and n.source_id = d.source_id and n.incarnation > d.incarnation \
             order by n.incarnation desc, n.dead_lettered_at desc, n.dead_letter_id desc limit 1) as newer from ",
            $table,
            " where ",
            $condition,
            " order by ",
            $order
        )
    };
}

/// The rows after a place, in the order in which they fall due.
macro_rules! claim_after {
    ($index:literal, $due:literal) => {
        concat!(
            claim!(
                concat!("wh_dead_letters d indexed by ", $index),
                concat!(
                    $due,
                    " and coalesce(d.next_recovery_at, d.dead_lettered_at) >= ?5 \
                     and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id) \
                     > (?5, ?6, ?7) and ",
                    free!()
                ),
                "coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id"
            ),
            " limit ?4"
        )
    };
}

const DUE: &str = claim_after!("wh_dead_letters_due", "coalesce(d.next_recovery_at, d.dead_lettered_at) <= ?1");
/// Rows without a due time are due at once, even those that seem to have died in the future.
const DUE_AHEAD: &str = claim_after!("wh_dead_letters_age", "d.dead_lettered_at > ?1 and d.next_recovery_at is null");
/// The first open rows of the stream ?5: whether each is due, which is 2, or waits for an earlier one, which is 1.
const OPEN_IN_STREAM: &str = concat!(
    "select d.rowid, case when not (",
    free!(),
    ") then 0 when d.next_recovery_at is null or d.next_recovery_at <= ?1 then 2 when d.deferral = 'stream' then 1 else 0 \
     end from wh_dead_letters d indexed by wh_dead_letters_stream_order where ",
    stream_key!(),
    " = ?5 and d.stream_id is not null and d.recovery_status < 2 and d.operator_disposition < 2 order by ",
    place!(),
    " limit ?4"
);
const ROWS: &str = claim!("wh_dead_letters d", "d.rowid in (select value from json_each(?))", place!());

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("free_rows::DUE", DUE),
    ("free_rows::DUE_AHEAD", DUE_AHEAD),
    ("free_rows::OPEN_IN_STREAM", OPEN_IN_STREAM),
    ("free_rows::ROWS", ROWS),
];

/// The rows to be claimed; and the place of the last row up to which all that are free are among them.
pub(super) async fn free_rows(
    write: &mut Write<'_>,
    request: &ClaimRequest<'_>,
) -> Read<(Vec<SqliteRow>, Option<Cursor>)> {
    let mut found = select(write, DUE, request, request.max).await?;
    let left = request.max.saturating_sub(count(&found));
    if left > 0 {
        found.extend(select(write, DUE_AHEAD, request, left).await?);
    }
    if request.whole_streams {
        return bring_along(write, request, found).await;
    }
    let last = found.iter().rev().find_map(place_of);
    Ok((found, last))
}

/// The rows with those of their streams that come along, as far as there is room.
async fn bring_along(
    write: &mut Write<'_>,
    request: &ClaimRequest<'_>,
    found: Vec<SqliteRow>,
) -> Read<(Vec<SqliteRow>, Option<Cursor>)> {
    let (mut rows, mut resume) = (Vec::new(), None);
    let (mut streams, mut numbers) = (HashSet::new(), HashSet::new());
    let number = |row: &SqliteRow| Cell::named(row, "row_number").integer();
    for row in found {
        let key = Cell::named(&row, "stream_key").into_text();
        if let Some(key) = key.filter(|key| streams.insert(key.clone())) {
            let left = request.max.saturating_sub(count(&rows));
            let first = first_of_stream(write, request, key, left).await?;
            numbers.extend(first.iter().copied().map(Some));
            rows.extend(
                sqlx::query(ROWS).bind(serde_json::Value::from(first).to_string()).fetch_all(&mut write.conn).await?,
            );
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

/// The first rows of a stream that can go together, by their numbers.
async fn first_of_stream(write: &mut Write<'_>, request: &ClaimRequest<'_>, key: String, most: u32) -> Read<Vec<i64>> {
    const IS_DUE: i64 = 2;
    const WAITS: i64 = 1;
    let query = sqlx::query(OPEN_IN_STREAM)
        .bind(time_text(write.now))
        .bind(request.generation.to_owned())
        .bind(time_text(reserved_since(write.now)))
        .bind(most)
        .bind(key);
    let open = query.fetch_all(&mut write.conn).await?;
    let comes = |row: &SqliteRow| Cell::at(row, 1).integer().unwrap_or_default();
    // What waits comes with the one that it waits for; the first of all waits for a held one.
    let brings = open.first().is_some_and(|first| comes(first) == IS_DUE);
    let first = open.iter().take_while(|row| brings && comes(row) >= WAITS);
    Ok(first.filter_map(|row| Cell::at(row, 0).integer()).collect())
}

async fn select(
    write: &mut Write<'_>,
    statement: &'static str,
    request: &ClaimRequest<'_>,
    max: u32,
) -> Read<Vec<SqliteRow>> {
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

fn place_of(row: &SqliteRow) -> Option<Cursor> {
    match read(row) {
        Row::Readable(entry) => Some(cursor(&entry)),
        Row::Unreadable { .. } => None,
    }
}

pub(super) fn cursor(entry: &DeadLetter) -> Cursor {
    Cursor {
        due_at: entry.next_recovery_at.unwrap_or(entry.dead_lettered_at),
        dead_lettered_at: entry.dead_lettered_at,
        dead_letter_id: entry.dead_letter_id,
    }
}

pub(super) fn count(rows: &[SqliteRow]) -> u32 {
    u32::try_from(rows.len()).unwrap_or(u32::MAX)
}
