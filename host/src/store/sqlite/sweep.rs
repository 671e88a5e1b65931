//! The generation sweep.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::connect::Write;
use super::guard;
use super::rows::live_ids;
use super::values::{Cell, time_text};
use crate::model::time::{later, stored};
use crate::store::passes::CHUNK;
use crate::store::{Result, Sweep};

/// Rows that a generation (?1) has not reached; of those that cannot be read it reaches none.
macro_rules! unreached {
    () => {
        "d.recovery_status < 3 and d.operator_disposition <> 2 and d.recovered_at is null and json_valid(d.retried_on_generations) \
         and not exists (select 1 from json_each(case when json_valid(d.retried_on_generations) \
         then d.retried_on_generations else '[]' end) where value = ?1)"
    };
}

const COUNT: &str = concat!(
    "select count(*) from wh_dead_letters d indexed by wh_dead_letters_unrecovered where d.recovery_status <> 3 and ",
    unreached!()
);
/// Rows are counted as they are looked at, so that no transaction reads more than a chunk. What stands in a row, where the
/// next chunk goes on, may be of any type: text that is not UTF-8 (?5, ?6) can be bound only as bytes.
const CHUNK_OF: &str = concat!(
    "select d.rowid, d.dead_lettered_at, d.dead_letter_id, ",
    unreached!(),
    " from wh_dead_letters d indexed by wh_dead_letters_unrecovered where d.recovery_status <> 3 \
     and (d.dead_lettered_at, d.dead_letter_id) > (iif(?5, cast(?3 as text), ?3), iif(?6, cast(?4 as text), ?4)) \
     order by d.dead_lettered_at, d.dead_letter_id limit ?2"
);
/// ?2 is a list of row numbers and due times. A row that died on this generation gets no credit, and stays held if it
/// is; a row in a live batch goes on with what it was claimed for.
const APPLY: &str = concat!(
    "update wh_dead_letters set \
     retried_on_generations = json_insert(retried_on_generations, '$[#]', ?1), \
     replay_credit = case when generation = ?1 then replay_credit else ?1 end, \
     replay_credit_at = case when generation = ?1 then replay_credit_at else ?3 end, \
     next_recovery_at = case when c.stays then next_recovery_at else c.due_at end, \
     deferral = case when c.stays then deferral end, \
     status_note = case when c.stays then status_note end, \
     recovery_status = case when c.stays then recovery_status else 0 end \
     from (select e.value ->> 0 as number, e.value ->> 1 as due_at, \
     d.dead_letter_id in (",
    live_ids!("?3"),
    ") or (d.generation = ?1 and d.recovery_status = 2) as stays \
     from json_each(?2) e join wh_dead_letters d on d.rowid = e.value ->> 0) c \
     where wh_dead_letters.rowid = c.number"
);

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("sweep::COUNT", COUNT), ("sweep::CHUNK_OF", CHUNK_OF), ("sweep::APPLY", APPLY)];

/// See [`crate::store::RecoveryStore::sweep`].
pub(super) async fn sweep(store: &SqliteStore, request: &Sweep<'_>) -> Result<u64> {
    let failed = |error| store.fault.of("sweep for a generation", error);
    let total = if request.stagger.is_zero() { 0 } else { count(store, request.generation).await? };
    let mut window = Window { start: None, stagger: request.stagger, total, next: 0 };
    let generation: Arc<str> = request.generation.into();
    let mut reached = 0;
    let mut after = [Cell::Text(String::new()), Cell::Text(String::new())];
    loop {
        let mut write = store.write(request.now).await?;
        let rows = chunk(&mut write, request.generation, &after).await.map_err(failed)?;
        let is_last = rows.len() < usize::try_from(CHUNK).unwrap_or(usize::MAX);
        if let Some(last) = rows.last() {
            after = [Cell::at(last, 1), Cell::at(last, 2)];
        }
        let unreached = rows.iter().filter(|row| Cell::at(row, 3).integer() == Some(1));
        let changes: Vec<Change> = unreached
            .map(|row| Change {
                generation: Arc::clone(&generation),
                dead_letter_id: Cell::at(row, 2).into_text().unwrap_or_default(),
                row: Cell::at(row, 0).integer().unwrap_or_default(),
                due_at: time_text(window.next(write.now)),
            })
            .collect();
        reached += guard::all_or_each(&mut write, &changes, apply).await.map_err(failed)?;
        write.commit().await?;
        if is_last {
            break;
        }
    }
    if reached > 0 {
        store.signals.ready();
    }
    Ok(reached)
}

async fn count(store: &SqliteStore, generation: &str) -> Result<u64> {
    let mut conn = store.read().await?;
    let row = sqlx::query(COUNT).bind(generation.to_owned()).fetch_one(&mut *conn).await;
    let row = row.map_err(|error| store.fault.of("count the rows to sweep", error))?;
    Ok(Cell::at(&row, 0).integer().and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
}

async fn chunk(
    write: &mut Write<'_>,
    generation: &str,
    after: &[Cell; 2],
) -> std::result::Result<Vec<SqliteRow>, sqlx::Error> {
    let mut query = sqlx::query(CHUNK_OF).bind(generation.to_owned()).bind(CHUNK);
    for cell in after {
        query = cell.clone().bind_to(query);
    }
    for cell in after {
        query = query.bind(matches!(cell, Cell::BrokenText(_)));
    }
    query.fetch_all(&mut write.conn).await
}

/// A row to be swept.
struct Change {
    generation: Arc<str>,
    dead_letter_id: String,
    row: i64,
    due_at: String,
}

impl AsRef<str> for Change {
    fn as_ref(&self) -> &str {
        &self.dead_letter_id
    }
}

/// Sweeps rows for the one generation that they are to be swept for.
async fn apply(write: &mut Write<'_>, rows: &[Change]) -> std::result::Result<u64, sqlx::Error> {
    let Some(Change { generation, .. }) = rows.first() else { return Ok(0) };
    let rows = rows.iter().map(|change| json!([change.row, change.due_at])).collect();
    let query = sqlx::query(APPLY)
        .bind(generation.to_string())
        .bind(serde_json::Value::Array(rows).to_string())
        .bind(time_text(write.now));
    Ok(query.execute(&mut write.conn).await?.rows_affected())
}

/// The window over which a sweep's rows fall due, oldest first.
struct Window {
    start: Option<Timestamp>,
    stagger: Duration,
    total: u64,
    next: u64,
}

impl Window {
    fn next(&mut self, now: Timestamp) -> Timestamp {
        let start = *self.start.get_or_insert(now);
        let place = self.next;
        self.next += 1;
        if self.total == 0 {
            return stored(start);
        }
        let nanos = self.stagger.as_nanos().saturating_mul(place.min(self.total).into()) / u128::from(self.total);
        stored(later(start, Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))))
    }
}
