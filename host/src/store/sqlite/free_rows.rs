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

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("free_rows::DUE", DUE), ("free_rows::DUE_AHEAD", DUE_AHEAD), ("free_rows::OPEN_IN_STREAM", OPEN_IN_STREAM)];

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
