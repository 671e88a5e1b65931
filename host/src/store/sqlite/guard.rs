//! Work on one row of a transaction, which the database may refuse without taking the other rows along.

use sqlx::sqlite::{SqliteConnection, SqliteQueryResult};
use uuid::Uuid;

use super::connect::Write;
use super::fault::{describe, is_infrastructure};

const SAVEPOINT: &str = "savepoint one_row";
const RELEASE: &str = "release one_row";
const ROLL_BACK: &str = "rollback to one_row";

/// What ended a transaction. With a row, that row took the transaction along, as a trigger can; begun anew without it,
/// it may come to its end.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) row: Option<Uuid>,
    pub(super) error: sqlx::Error,
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Self {
        Self { row: None, error }
    }
}

/// An error where a change was not carried out. A trigger may pass one over in silence: what goes with it would be done
/// again and again.
pub(super) fn changed(done: &SqliteQueryResult) -> Result<(), sqlx::Error> {
    if done.rows_affected() > 0 {
        return Ok(());
    }
    Err(sqlx::Error::Protocol("a change of a dead letter was not carried out, and nothing said why".to_owned()))
}

/// Starts the work on a row.
pub(super) async fn open(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(SAVEPOINT).execute(conn).await.map(drop)
}

/// Undoes what was done since [`open`].
pub(super) async fn undo(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(ROLL_BACK).execute(conn).await.map(drop)
}

/// Keeps what was done since [`open`].
pub(super) async fn keep(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(RELEASE).execute(conn).await.map(drop)
}

/// Ends the work on a row. What the database refused is undone, and handed back in `Ok(Err(_))`.
pub(super) async fn close<T>(
    conn: &mut SqliteConnection,
    row: Option<Uuid>,
    tried: Result<T, sqlx::Error>,
) -> Result<Result<T, sqlx::Error>, Stop> {
    if let Err(error) = tried {
        if is_infrastructure(&error) {
            return Err(error.into());
        }
        match undo(&mut *conn).await {
            Ok(()) => {}
            Err(system) if is_infrastructure(&system) => return Err(system.into()),
            Err(_no_transaction) => return Err(Stop { row, error }),
        }
        keep(conn).await?;
        return Ok(Err(error));
    }
    keep(conn).await?;
    Ok(tried)
}

/// Changes rows, known by their ids, all at once, or, when the database refuses that, each that it lets be changed; how
/// many.
pub(super) async fn all_or_each<T: AsRef<str>>(
    write: &mut Write<'_>,
    rows: &[T],
    change: impl AsyncFn(&mut Write<'_>, &[T]) -> Result<u64, sqlx::Error>,
) -> Result<u64, sqlx::Error> {
    open(&mut write.conn).await?;
    let all = change(write, rows).await;
    if let Ok(changed) = close(&mut write.conn, None, all).await.map_err(|stop| stop.error)? {
        return Ok(changed);
    }
    let mut changed = 0;
    for row in rows {
        open(&mut write.conn).await?;
        let one = change(write, std::slice::from_ref(row)).await;
        match close(&mut write.conn, None, one).await.map_err(|stop| stop.error)? {
            Ok(rows) => changed += rows,
            Err(error) => tell_refused(row.as_ref(), &error),
        }
    }
    Ok(changed)
}

pub(super) fn tell_refused(dead_letter_id: &str, error: &sqlx::Error) {
    tracing::warn!(dead_letter_id, problem = describe(error), "the database refuses to change this dead letter");
}
