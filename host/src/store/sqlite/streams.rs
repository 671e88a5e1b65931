//! Streams that keep their order: what stands before a row, and what is due once that is gone.

use std::collections::HashMap;

use jiff::SignedDuration;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

use super::SqliteStore;
use super::claim::stream_key;
use super::connect::Write;
use super::fault::describe;
use super::guard;
use super::values::{Cell, json_ids, json_list, time_text};
use crate::model::decision::Predecessor;
use crate::store::streams::WOKEN_AT_ONCE;
use crate::store::{InStream, Result, StreamOrder};

type Read<T> = std::result::Result<T, sqlx::Error>;

/// The place of a row `d` in its stream.
macro_rules! place {
    () => {
        "coalesce(d.source_position, 9223372036854775807), coalesce(d.source_created_at, d.dead_lettered_at), \
         d.source_id, d.dead_letter_id"
    };
}
pub(super) use place;

/// The first row of the stream ?1 that is in the way of others: none of ?2, and one of ?3 whatever the policy said of it
/// before.
macro_rules! front {
    ($index:literal, $condition:literal) => {
        concat!(
            "select ",
            place!(),
            ", d.next_recovery_at from wh_dead_letters d indexed by ",
            $index,
            " where ",
            stream_key!(),
            " = ?1 and ",
            $condition,
            " and d.stream_id is not null and d.dead_letter_id not in (select value from json_each(?2)) \
             and not exists (select 1 from wh_dead_letters n where n.source_table = d.source_table \
             and n.source_id = d.source_id and n.incarnation > d.incarnation) \
             and (d.dead_letter_id in (select value from json_each(?3)) or coalesce((select c.mode from (\
             select decided_at, decision_id, case when json_valid(rule) then json_extract(rule, '$.stream_mode') end \
             as mode from wh_dead_letter_decisions where dead_letter_id = d.dead_letter_id) c where c.mode is not null \
             order by c.decided_at desc, c.decision_id desc limit 1), '') <> 'per-message') order by ",
            place!(),
            " limit 1"
        )
    };
}

const OPEN_FRONT: &str = front!("wh_dead_letters_stream_order", "d.recovery_status < 2 and d.operator_disposition < 2");
const HELD_FRONT: &str = front!(
    "wh_dead_letters_stream_held",
    "d.recovery_status < 3 and d.operator_disposition <> 3 and (d.recovery_status = 2 or d.operator_disposition = 2)"
);
const OURS: &str = concat!(
    "select ",
    place!(),
    ", ",
    stream_key!(),
    " as stream_key from wh_dead_letters d where d.dead_letter_id in (select value from json_each(?)) \
     order by stream_key, ",
    place!()
);
const WAITING: &str = "select dead_letter_id from wh_dead_letters where dead_letter_id in (select value from json_each(?)) \
    and deferral = 'stream' and recovery_status < 2";
const KEYS: &str = concat!(
    "select distinct ",
    stream_key!(),
    " from wh_dead_letters d where d.dead_letter_id in (select value from json_each(?)) and ",
    stream_key!(),
    " is not null"
);
const WAITERS: &str = concat!(
    "select d.dead_letter_id from wh_dead_letters d indexed by wh_dead_letters_stream_waits where ",
    stream_key!(),
    " = ? and d.deferral = 'stream' and d.recovery_status < 2 order by ",
    place!(),
    " limit ?"
);
const WAKE: &str = "update wh_dead_letters set next_recovery_at = ?, deferral = null, status_note = null \
    where dead_letter_id = ? and deferral = 'stream' and recovery_status < 2";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("streams::OPEN_FRONT", OPEN_FRONT),
    ("streams::HELD_FRONT", HELD_FRONT),
    ("streams::OURS", OURS),
    ("streams::WAITING", WAITING),
    ("streams::KEYS", KEYS),
    ("streams::WAITERS", WAITERS),
    ("streams::WAKE", WAKE),
];

/// A place in a stream: position, time, message, dead letter.
type Place = (i64, String, String, String);

fn place_of(row: &SqliteRow) -> Place {
    let text = |index| Cell::at(row, index).into_text().unwrap_or_default();
    (Cell::at(row, 0).integer().unwrap_or(i64::MAX), text(1), text(2), text(3))
}

/// See [`crate::store::RecoveryStore::stream_order`].
pub(super) async fn stream_order(store: &SqliteStore, request: &StreamOrder<'_>) -> Result<Vec<InStream>> {
    let mut conn = store.read().await?;
    let order = order_of(&mut conn, request).await;
    order.map_err(|error| store.fault.of("look for earlier dead letters of their streams", error))
}

/// The same, as it is in a transaction.
pub(super) async fn order_of(conn: &mut SqliteConnection, request: &StreamOrder<'_>) -> Read<Vec<InStream>> {
    let standing = json_ids(request.standing.iter().copied());
    let ours = sqlx::query(OURS).bind(json_ids(request.ids.iter().copied())).fetch_all(&mut *conn).await?;
    let key = |row: &SqliteRow| Cell::named(row, "stream_key").into_text();
    let mut order = Vec::with_capacity(ours.len());
    for stream in ours.chunk_by(|one, next| key(one) == key(next)) {
        let ids: Vec<Uuid> = stream.iter().filter_map(|row| Cell::at(row, 3).uuid()).collect();
        let first = match stream.first().and_then(key) {
            Some(key) => {
                let left_out = json_ids(ids.iter().chain(request.passed).copied());
                front(conn, &key, &left_out, &standing, request.held_blocks).await?
            }
            None => None,
        };
        for (row, dead_letter_id) in stream.iter().zip(ids) {
            let stands = first.as_ref().filter(|(first, _)| *first < place_of(row));
            order.push(InStream { dead_letter_id, predecessor: stands.map(|(_, predecessor)| *predecessor) });
        }
    }
    Ok(order)
}

async fn front(
    conn: &mut SqliteConnection,
    key: &str,
    left_out: &str,
    standing: &str,
    held_blocks: bool,
) -> Read<Option<(Place, Predecessor)>> {
    let mut first: Option<(Place, Predecessor)> = None;
    for statement in [OPEN_FRONT, HELD_FRONT].into_iter().take(if held_blocks { 2 } else { 1 }) {
        let query = sqlx::query(statement).bind(key.to_owned()).bind(left_out.to_owned()).bind(standing.to_owned());
        let Some(row) = query.fetch_optional(&mut *conn).await? else { continue };
        let Some(dead_letter_id) = Cell::at(&row, 3).uuid() else { continue };
        let found = (place_of(&row), Predecessor { dead_letter_id, due_at: Cell::at(&row, 4).time() });
        if first.as_ref().is_none_or(|(place, _)| found.0 < *place) {
            first = Some(found);
        }
    }
    Ok(first)
}

/// See [`crate::store::OperatorStore::waits_for`].
pub(super) async fn waits_for(store: &SqliteStore, ids: &[Uuid]) -> Result<HashMap<Uuid, Uuid>> {
    let failed = |error| store.fault.of("look for what dead letters wait for", error);
    let mut conn = store.read().await?;
    let waiting = sqlx::query(WAITING).bind(json_ids(ids.iter().copied())).fetch_all(&mut *conn).await;
    let mut found = HashMap::new();
    for id in waiting.map_err(failed)?.iter().filter_map(|row| Cell::at(row, 0).uuid()) {
        // An open row, else a held one.
        for held_blocks in [false, true] {
            let request = StreamOrder { ids: &[id], passed: &[], standing: &[], held_blocks };
            let order = order_of(&mut conn, &request).await.map_err(failed)?;
            if let Some(predecessor) = order.first().and_then(|row| row.predecessor) {
                found.insert(id, predecessor.dead_letter_id);
                break;
            }
        }
    }
    Ok(found)
}

/// Makes those due that wait in the streams of these rows, which are in nobody's way any more; how many.
pub(super) async fn wake_behind(write: &mut Write<'_>, ids: impl IntoIterator<Item = String>) -> Read<u64> {
    let rows = sqlx::query(KEYS).bind(json_list(ids)).fetch_all(&mut write.conn).await?;
    let keys: Vec<String> = rows.iter().filter_map(|row| Cell::at(row, 0).into_text()).collect();
    wake(write, &keys).await
}

/// Makes the first rows due that wait in these streams; how many. A stream of which the database refuses that is passed:
/// its rows are looked at in any case, though later.
pub(super) async fn wake(write: &mut Write<'_>, keys: &[String]) -> Read<u64> {
    let each = u32::try_from((WOKEN_AT_ONCE / keys.len().max(1)).max(1)).unwrap_or(u32::MAX);
    let mut waiters = Vec::new();
    for key in keys {
        let rows = sqlx::query(WAITERS).bind(key.clone()).bind(each).fetch_all(&mut write.conn).await?;
        let ids: Vec<String> = rows.iter().filter_map(|row| Cell::at(row, 0).into_text()).collect();
        waiters.push((key, ids));
    }
    let (mut woken, mut behind) = (0, 0);
    for (key, ids) in waiters.into_iter().rev().filter(|(_, ids)| !ids.is_empty()) {
        let first = behind;
        behind += i64::try_from(ids.len()).unwrap_or(i64::MAX);
        guard::open(&mut write.conn).await?;
        let tried = wake_rows(write, ids, first).await;
        match guard::close(&mut write.conn, None, tried).await.map_err(|stop| stop.error)? {
            Ok(rows) => woken += rows,
            Err(error) => tracing::warn!(stream = key, problem = describe(&error), "no row of a stream is made due"),
        }
    }
    Ok(woken)
}

/// Makes rows due, the last of them so many microseconds ago, and each before it one earlier; how many.
async fn wake_rows(write: &mut Write<'_>, ids: Vec<String>, last: i64) -> Read<u64> {
    let mut woken = 0;
    for (behind, id) in (last..).zip(ids.into_iter().rev()) {
        let due_at = write.now.checked_sub(SignedDuration::from_micros(behind)).unwrap_or(write.now);
        let query = sqlx::query(WAKE).bind(time_text(due_at)).bind(id);
        woken += query.execute(&mut write.conn).await?.rows_affected();
    }
    Ok(woken)
}
