//! What an error of SQLite means for the caller.

use crate::store::StoreError;

/// Turns errors into the store's, naming it.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    store: String,
}

const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NO_MEMORY: i32 = 7;
const READ_ONLY: i32 = 8;
const IO: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANNOT_OPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const CONSTRAINT: i32 = 19;
const NO_DATABASE: i32 = 26;

impl Fault {
    pub(super) fn new(store: &str) -> Self {
        Self { store: store.to_owned() }
    }

    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// What the caller is told; `action` is what was asked, as a verb phrase.
    pub(super) fn of(&self, action: &'static str, error: sqlx::Error) -> StoreError {
        let store = self.store.clone();
        let unusable = |problem: &str| StoreError::Unusable { store: store.clone(), problem: problem.to_owned() };
        if is_infrastructure(&error) {
            return StoreError::Unavailable { store, problem: describe(&error) };
        }
        match primary_code(&error) {
            Some(NO_DATABASE) => unusable("the file is no SQLite database; name another, or a new one"),
            Some(CORRUPT) => {
                unusable("the database is damaged; restore it from a backup, or try `sqlite3 FILE .recover`")
            }
            Some(READ_ONLY) => unusable("the file is read-only; make it and its folder writable for this user"),
            Some(_) if describe(&error).contains("no such table") => StoreError::NotMigrated { store },
            _ => StoreError::Database { action, problem: describe(&error) },
        }
    }

    /// What the caller is told when the file cannot be opened or created at the start.
    pub(super) fn of_opening(&self, error: sqlx::Error) -> StoreError {
        if primary_code(&error) != Some(CANNOT_OPEN) {
            return self.of("open the file", error);
        }
        let problem =
            "the file cannot be opened or created; make it and its folder readable and writable for this user";
        StoreError::Unusable { store: self.store.clone(), problem: problem.to_owned() }
    }

    pub(super) fn is_busy(error: &sqlx::Error) -> bool {
        matches!(primary_code(error), Some(BUSY | LOCKED))
    }
}

/// Whether the fault is the system's and not the statement's: nothing is counted, and trying again may help.
pub(super) fn is_infrastructure(error: &sqlx::Error) -> bool {
    match primary_code(error) {
        Some(code) => {
            matches!(code, BUSY | LOCKED | NO_MEMORY | IO | FULL | CANNOT_OPEN | PROTOCOL)
        }
        None => matches!(
            error,
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed
        ),
    }
}

/// Whether the statement broke a constraint of a table.
pub(super) fn is_constraint(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(CONSTRAINT)
}

/// What SQLite said, without the code that stands before it.
pub(super) fn describe(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |database| database.message().to_owned())
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
