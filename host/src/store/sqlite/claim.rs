//! Claiming: taking due rows for a batch.

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::connect::Write;
use super::fault::{describe, is_constraint};
use super::free_rows::{count, cursor, free_rows};
use super::rows::read;
use super::streams;
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
pub(super) use {batch_streams, free, stream_key};

const INSERT_BATCH: &str = "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, \
    started_at, expires_at) values (?, ?, ?, 'deciding', ?, ?, ?, ?)";
const STREAMS_IN_HAND: &str = "select exists (select 1 from wh_recovery_batches where streams <> '[]')";
/// Puts the times into the form that the order of claims rests on, where an application wrote another.
const NORMALISE: &str = "update wh_dead_letters set dead_lettered_at = ?, next_recovery_at = ? where rowid = ?";
const HOLD_UNREADABLE: &str = "update wh_dead_letters set recovery_status = 2, next_recovery_at = null, \
    deferral = null, status_note = ? where rowid = ?";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
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
    let (found, resume) = free_rows(write, request).await?;
    // Whether a row was passed is not told here: going on from the same place is cheap where nothing holds a snapshot.
    let streams_in_hand = sqlx::query(STREAMS_IN_HAND).fetch_one(&mut write.conn).await?.try_get::<bool, _>(0)?;
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

/// Credits granted up to this time no longer reserve their rows.
pub(super) fn reserved_since(now: Timestamp) -> Timestamp {
    jiff::SignedDuration::try_from(RESERVED_FOR).ok().and_then(|hour| now.checked_sub(hour).ok()).unwrap_or(now)
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
