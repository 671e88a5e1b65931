//! What an error of the driver means to a caller.

use sqlx::postgres::PgDatabaseError;

use crate::store::StoreError;

/// Whether a SQLSTATE says that the infrastructure failed, and nothing about the data at hand.
pub(super) fn is_infrastructure(code: &str) -> bool {
    code == "55P03" || matches!(code.get(..2), Some("08" | "40" | "53" | "57" | "58"))
}

/// The SQLSTATE of an error, if the server sent it.
pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|refusal| refusal.code()).map(std::borrow::Cow::into_owned)
}

/// An error of a statement. `action` completes "the database refused to …".
pub(super) fn refused(store: &str, action: &'static str, error: &sqlx::Error) -> StoreError {
    let unreachable = match sqlstate(error) {
        Some(code) => is_infrastructure(&code),
        None => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::BeginFailed
        ),
    };
    if unreachable {
        return StoreError::Unavailable { store: store.to_owned(), problem: said(error) };
    }
    match sqlstate(error).as_deref() {
        Some("22023") => StoreError::Invalid(said(error)),
        _ => StoreError::Database { action, problem: said(error) },
    }
}

/// An error of the first connection: what the server holds against the user or the database is the caller's to mend.
pub(super) fn at_connect(store: &str, error: &sqlx::Error) -> StoreError {
    match sqlstate(error) {
        Some(code) if !is_infrastructure(&code) => {
            StoreError::Unusable { store: store.to_owned(), problem: said(error) }
        }
        Some(_) | None => StoreError::Unavailable { store: store.to_owned(), problem: said(error) },
    }
}

/// What the server or the system said, in one line.
pub(super) fn said(error: &sqlx::Error) -> String {
    let Some(refusal) = error.as_database_error() else { return error.to_string() };
    let mut text = refusal.message().to_owned();
    if let Some(detail) = refusal.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::detail) {
        text.push_str(" (");
        text.push_str(detail);
        text.push(')');
    }
    text
}
