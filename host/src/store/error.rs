//! What can go wrong in a store.

use uuid::Uuid;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no store; a usage error.
    #[error("store URL {url}: {problem}")]
    Url {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file or server is there but cannot serve as a store; a usage error.
    #[error("store {store}: {problem}")]
    Unusable {
        /// The store, without its password.
        store: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// The schema is missing or older than this version needs.
    #[error("store {store} has no current schema: run `reprieve migrate`")]
    NotMigrated {
        /// The store, without its password.
        store: String,
    },
    /// A function of a contract name exists that was not made by this project.
    #[error(
        "function {function} exists already and was not made by reprieve: run `reprieve migrate --adopt` to replace it"
    )]
    ForeignFunction {
        /// Its name with its arguments.
        function: String,
    },
    /// Another process recovers from this store, which allows one only.
    #[error("another host recovers from {store} already")]
    AnotherHost {
        /// The store.
        store: String,
    },
    /// The request itself is wrong, such as an unknown source table.
    #[error("{0}")]
    Invalid(String),
    /// What is asked about is not there.
    #[error("{0}")]
    NotFound(String),
    /// A dead letter that the database does not take; nothing was imported.
    #[error("dead letter {dead_letter_id} cannot be imported: {problem}")]
    BadRow {
        /// Which.
        dead_letter_id: Uuid,
        /// What the database said.
        problem: String,
    },
    /// The database cannot be reached or cannot work now: back off and try again. Nothing was counted.
    #[error("store {store} cannot be reached: {problem}")]
    Unavailable {
        /// The store, without its password.
        store: String,
        /// What it or the system said.
        problem: String,
    },
    /// Anything else that the database refused.
    #[error("the database refused to {action}: {problem}")]
    Database {
        /// What was asked of it, as a verb phrase.
        action: &'static str,
        /// What it said.
        problem: String,
    },
}

impl StoreError {
    /// Whether backing off and trying again may help.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
