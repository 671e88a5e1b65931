//! Opening a store by its URL.

use std::sync::Arc;
use std::time::Duration;

use super::postgres::{PostgresOptions, PostgresStore};
use super::sqlite::SqliteStore;
use super::{Result, SharedStore, StoreError};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether a missing SQLite file is created. Without it, a missing file is [`StoreError::NotMigrated`], and none
    /// is left behind. PostgreSQL databases are never created.
    pub create: bool,
    /// Whether sessions are shared, as behind a transaction-pooling proxy, so that nothing may be kept in one.
    pub pooled: bool,
    /// Whether nothing may be written. SQLite opens the file for reading; PostgreSQL refuses what writes, unless `pooled`
    /// leaves no session to say so in.
    pub read_only: bool,
    /// How long a server may take to answer one statement before the connection is given up.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { create: false, pooled: false, read_only: false, patience: Duration::from_secs(120) }
    }
}

const EXPECTED: &str = "expected sqlite://path/to/file.db or postgres://user@host/database";

/// Opens the store that a URL names: `sqlite://path` or `postgres://…` (also `postgresql://…`).
///
/// # Errors
///
/// [`StoreError::Url`] for any other URL; else what the store says, such as [`StoreError::Unusable`] and
/// [`StoreError::Unavailable`].
pub async fn open(url: &str, options: &Options) -> Result<SharedStore> {
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(refused(url, format!("it has no scheme; {EXPECTED}")));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "sqlite" => Ok(Arc::new(SqliteStore::connect(url, options).await?)),
        "postgres" | "postgresql" => Ok(Arc::new(
            PostgresStore::connect(
                url,
                PostgresOptions {
                    pooled: options.pooled,
                    read_only: options.read_only,
                    patience: options.patience,
                    ..PostgresOptions::default()
                },
            )
            .await?,
        )),
        other => Err(refused(url, format!("unknown scheme {other:?}; {EXPECTED}"))),
    }
}

fn refused(url: &str, problem: String) -> StoreError {
    StoreError::Url { url: redact(url), problem }
}

/// A store's URL without its password, for logs and messages.
///
/// What stands between the first `:` of the user part and the last `@` is replaced, and so is the value of a
/// parameter named `password` or `sslpassword`. A URL that is not well formed loses rather too much than too little.
#[must_use]
pub fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return redact_parameters(url);
    };
    let Some((user, place)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{}", redact_parameters(rest));
    };
    let user = match user.split_once(':') {
        Some((name, _)) => format!("{name}:***"),
        None => user.to_owned(),
    };
    format!("{scheme}://{user}@{}", redact_parameters(place))
}

fn redact_parameters(text: &str) -> String {
    let Some((place, parameters)) = text.split_once('?') else {
        return text.to_owned();
    };
    let shown: Vec<String> = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}=***"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{place}?{}", shown.join("&"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://ada:secret@db:5432/shop", "postgres://ada:***@db:5432/shop"),
            ("postgres://ada:se/cr@e?t@db/shop", "postgres://ada:***@db/shop"),
            (
                "postgres://ada@db/shop?password=secret&sslmode=require",
                "postgres://ada@db/shop?password=***&sslmode=require",
            ),
            ("postgres://db/shop", "postgres://db/shop"),
            ("sqlite://reprieve.db", "sqlite://reprieve.db"),
            ("host=db?PASSWORD=x", "host=db?PASSWORD=***"),
        ] {
            assert_eq!(redact(url), shown);
        }
    }

    #[tokio::test]
    async fn an_unknown_or_missing_scheme_is_refused_with_what_is_expected() {
        for (url, part) in
            [("mysql://u:p@h/d", "unknown scheme \"mysql\""), ("reprieve.db", "no scheme"), ("", "no scheme")]
        {
            let error = open(url, &Options::default()).await.err().unwrap();
            let message = error.to_string();
            assert!(matches!(error, StoreError::Url { .. }), "{message}");
            assert!(
                message.contains(part) && message.contains("sqlite://") && message.contains("postgres://"),
                "{message}"
            );
            assert!(!message.contains("u:p@"), "{message}");
        }
    }
}
