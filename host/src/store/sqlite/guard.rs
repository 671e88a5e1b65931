//! Work on one row of a transaction, which the database may refuse without taking the other rows along.

use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::fault::is_infrastructure;

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

/// Starts the work on a row.
pub(super) async fn open(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(SAVEPOINT).execute(conn).await.map(drop)
}

/// Undoes what was done since [`open`].
pub(super) async fn undo(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(ROLL_BACK).execute(conn).await.map(drop)
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
        if undo(&mut *conn).await.is_err() {
            return Err(Stop { row, error });
        }
        sqlx::query(RELEASE).execute(conn).await?;
        return Ok(Err(error));
    }
    sqlx::query(RELEASE).execute(conn).await?;
    Ok(tried)
}
