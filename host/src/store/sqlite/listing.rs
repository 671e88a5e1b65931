//! Listings and one row whole.

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Connection, Sqlite};
use uuid::Uuid;

use super::SqliteStore;
use super::rows::{columns, read};
use super::values::Cell;
use crate::model::{RecoveryStatus, SourceTable};
use crate::store::operator::{Incarnation, RecordedDecision};
use crate::store::{Filter, Page, Result, StoreError, Whole};

/// A row's status as it is shown, by the system's clock or another.
macro_rules! shown_status {
    ($($now:literal)?) => {
        concat!(
            "case when d.recovery_status in (0, 1) then d.dead_letter_id in (",
            $crate::store::sqlite::rows::live_ids!($($now)?),
            ") else d.recovery_status end"
        )
    };
}
pub(super) use shown_status;

/// The conditions of a filter, bound by [`bind_filter`] as ?1 to ?5.
macro_rules! matches_filter {
    () => {
        concat!(
            "(?1 is null or ",
            $crate::store::sqlite::listing::shown_status!(),
            " = ?1) and (?2 is null or d.failure_reason = ?2) and (?3 is null or d.source_table = ?3) \
             and (?4 is null or d.stream_id = ?4) and (?5 is null or d.message_type glob ?5)"
        )
    };
}
pub(super) use matches_filter;

macro_rules! list {
    ($index:literal, $condition:literal) => {
        concat!(
            "select ",
            columns!(),
            " from wh_dead_letters d indexed by ",
            $index,
            " where ",
            matches_filter!(),
            $condition,
            " order by d.dead_lettered_at desc, d.dead_letter_id desc limit ?8"
        )
    };
}

const LIST: &str = list!("wh_dead_letters_age", "");
const LIST_AFTER: &str = list!("wh_dead_letters_age", " and (d.dead_lettered_at, d.dead_letter_id) < (?6, ?7)");
const LIST_UNRECOVERED: &str = list!("wh_dead_letters_unrecovered", " and d.recovery_status <> 3");
const LIST_UNRECOVERED_AFTER: &str = list!(
    "wh_dead_letters_unrecovered",
    " and d.recovery_status <> 3 and (d.dead_lettered_at, d.dead_letter_id) < (?6, ?7)"
);
const PLACE: &str = "select dead_lettered_at, dead_letter_id from wh_dead_letters where dead_letter_id = ?";
const COUNT: &str = concat!("select count(*) from wh_dead_letters d where ", matches_filter!());
const SHOW: &str =
    concat!("select ", columns!(), ", d.envelope, d.source_row from wh_dead_letters d where d.dead_letter_id = ?");
const INCARNATIONS: &str = concat!(
    "select d.dead_letter_id, d.incarnation, d.dead_lettered_at, d.generation, ",
    shown_status!(),
    " from wh_dead_letters d join wh_dead_letters s on s.source_table = d.source_table \
     and s.source_id = d.source_id and s.dead_letter_id <> d.dead_letter_id where s.dead_letter_id = ? \
     order by d.incarnation, d.dead_lettered_at, d.dead_letter_id"
);
const DECISIONS: &str = "select decision_id, decided_at, decision, policy_name, policy_digest, attempt, rule, inputs, \
    note from wh_dead_letter_decisions where dead_letter_id = ? order by decided_at, decision_id";
const PING: &str = "select 1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("listing::LIST", LIST),
    ("listing::LIST_AFTER", LIST_AFTER),
    ("listing::LIST_UNRECOVERED", LIST_UNRECOVERED),
    ("listing::LIST_UNRECOVERED_AFTER", LIST_UNRECOVERED_AFTER),
    ("listing::PLACE", PLACE),
    ("listing::COUNT", COUNT),
    ("listing::SHOW", SHOW),
    ("listing::INCARNATIONS", INCARNATIONS),
    ("listing::DECISIONS", DECISIONS),
    ("listing::PING", PING),
];

type Bound<'q> = Query<'q, Sqlite, SqliteArguments>;
pub(super) type Read<T> = std::result::Result<T, sqlx::Error>;

/// Binds a filter as the first five parameters.
pub(super) fn bind_filter(statement: &'static str, filter: &Filter) -> Bound<'static> {
    sqlx::query(statement)
        .bind(filter.status.map(RecoveryStatus::number))
        .bind(filter.reason.map(|reason| reason.0))
        .bind(filter.source_table.map(SourceTable::name))
        .bind(filter.stream_id.map(|id| id.to_string()))
        .bind(filter.message_type.as_deref().map(|glob| glob.replace("[!", "[^")))
}

/// See [`crate::store::OperatorStore::list`].
pub(super) async fn list(store: &SqliteStore, filter: &Filter, page: &Page) -> Result<Vec<crate::store::Row>> {
    let failed = |error| store.fault.of("list dead letters", error);
    let mut conn = store.read().await?;
    let mut place = (None, None);
    if let Some(after) = page.after {
        let row = sqlx::query(PLACE).bind(after.to_string()).fetch_optional(&mut *conn).await.map_err(failed)?;
        let row = row.ok_or_else(|| StoreError::NotFound(format!("no dead letter {after} to list after")))?;
        place = (Cell::at(&row, 0).into_text(), Cell::at(&row, 1).into_text());
    }
    let unrecovered = filter.status.is_some_and(|status| status != RecoveryStatus::Recovered);
    let statement = match (unrecovered, page.after.is_some()) {
        (false, false) => LIST,
        (false, true) => LIST_AFTER,
        (true, false) => LIST_UNRECOVERED,
        (true, true) => LIST_UNRECOVERED_AFTER,
    };
    let query = bind_filter(statement, filter).bind(place.0).bind(place.1).bind(page.limit);
    Ok(query.fetch_all(&mut *conn).await.map_err(failed)?.iter().map(read).collect())
}

/// See [`crate::store::OperatorStore::count`].
pub(super) async fn count(store: &SqliteStore, filter: &Filter) -> Result<u64> {
    let mut conn = store.read().await?;
    let row = bind_filter(COUNT, filter).fetch_one(&mut *conn).await;
    Ok(number(&row.map_err(|error| store.fault.of("count dead letters", error))?, 0))
}

pub(super) fn number(row: &SqliteRow, index: usize) -> u64 {
    Cell::at(row, index).integer().and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// See [`crate::store::OperatorStore::show`].
pub(super) async fn show(store: &SqliteStore, id: Uuid) -> Result<Option<Whole>> {
    let mut conn = store.read().await?;
    show_in(&mut conn, id).await.map_err(|error| store.fault.of("show a dead letter", error))
}

async fn show_in(conn: &mut SqliteConnection, id: Uuid) -> Read<Option<Whole>> {
    let mut snapshot = conn.begin().await?;
    let Some(row) = sqlx::query(SHOW).bind(id.to_string()).fetch_optional(&mut *snapshot).await? else {
        return Ok(None);
    };
    let others = sqlx::query(INCARNATIONS).bind(id.to_string()).fetch_all(&mut *snapshot).await?;
    let decisions = sqlx::query(DECISIONS).bind(id.to_string()).fetch_all(&mut *snapshot).await?;
    Ok(Some(Whole {
        row: read(&row),
        envelope: Cell::named(&row, "envelope").into_text().unwrap_or_default(),
        source_row: Cell::named(&row, "source_row").into_text(),
        incarnations: others.iter().filter_map(incarnation).collect(),
        decisions: decisions.iter().filter_map(decision).collect(),
    }))
}

fn incarnation(row: &SqliteRow) -> Option<Incarnation> {
    let number = |index| Cell::at(row, index).integer();
    Some(Incarnation {
        dead_letter_id: Cell::at(row, 0).uuid()?,
        incarnation: i32::try_from(number(1)?).ok()?,
        dead_lettered_at: Cell::at(row, 2).time()?,
        generation: Cell::at(row, 3).into_text()?,
        recovery_status: RecoveryStatus::try_from(number(4)?).ok()?,
    })
}

/// Reads a recorded decision whose columns come first, in the order of [`RecordedDecision`].
pub(super) fn decision(row: &SqliteRow) -> Option<RecordedDecision> {
    let text = |index| Cell::at(row, index).into_text();
    Some(RecordedDecision {
        decision_id: Cell::at(row, 0).uuid()?,
        decided_at: Cell::at(row, 1).time()?,
        decision: text(2)?,
        policy_name: text(3),
        policy_digest: text(4),
        attempt: Cell::at(row, 5).integer().and_then(|attempt| i32::try_from(attempt).ok()),
        rule: text(6),
        inputs: text(7),
        note: text(8),
    })
}

/// See [`crate::store::OperatorStore::ping`].
pub(super) async fn ping(store: &SqliteStore) -> Result<()> {
    let mut conn = store.read().await?;
    let answer = sqlx::query(PING).fetch_one(&mut *conn).await;
    answer.map(drop).map_err(|error| store.fault.of("answer", error))
}
