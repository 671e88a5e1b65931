//! Connecting, and the one way in which every statement is run.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, Postgres, Transaction};
use tokio::time::timeout;

use super::error::{at_connect, refused};
use super::rows::time;
use super::warm::Warm;
use super::{PostgresOptions, PostgresStore};
use crate::store::open::redact;
use crate::store::{Result, StoreError};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call waits for a connection of the pool before the store counts as unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for longer is tried before it is used: what keeps the network alive forgets it.
const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// Connections that are never kept at hand, so that a transaction finds one.
const KEPT_FREE: u32 = 2;
/// How long it may take to answer then. There may be several to be tried within the time that a call waits.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) const NOW: &str = "select clock_timestamp() as now";

impl PostgresStore {
    /// Connects to a `postgres://` or `postgresql://` URL. The schema is not looked at.
    ///
    /// # Errors
    ///
    /// [`StoreError::Url`] when the URL cannot be read, [`StoreError::Unavailable`] within about ten seconds when no
    /// server answers, [`StoreError::Unusable`] when it refuses the user or has no such database. No message holds
    /// the password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        let name = redact(url);
        let connect_options = parse(url, &name, options)?;
        let attempt = timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&connect_options)).await;
        let connection = attempt
            .map_err(|_| StoreError::Unavailable {
                store: name.clone(),
                problem: format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
            })?
            .map_err(|error| at_connect(&name, &error))?;
        // The check is done; a goodbye that goes wrong changes nothing.
        drop(connection.close().await);
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move { if about.idle_for > TRUSTED_FOR { answers(connection).await } else { Ok(true) } })
            })
            // The driver asks as well when it takes one back, and waits for the answer as long as it takes.
            .after_release(|connection, _| Box::pin(answers(connection)))
            .connect_lazy_with(connect_options.clone());
        let most = options.max_connections.saturating_sub(KEPT_FREE).try_into().unwrap_or(usize::MAX);
        let warm = Warm::new(most, TRUSTED_FOR);
        Ok(Self { pool, warm, connect_options, name, pooled: options.pooled, patience: options.patience })
    }

    /// A statement with its parameters yet to be bound.
    pub(super) fn query(&self, sql: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(sql).persistent(!self.pooled)
    }

    /// Runs one statement and gives all of its rows. A connection that does not answer within the store's patience is
    /// given up: a network that drops packets says nothing, and would hold the caller for a quarter of an hour.
    pub(super) async fn rows(
        &self,
        action: &'static str,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        let mut connection = match self.warm.take() {
            Some(connection) => connection,
            None => self.pool.acquire().await.map_err(|error| self.refused(action, error))?,
        };
        match timeout(self.patience, self.run(&mut connection, query)).await {
            Ok(Ok(rows)) => {
                self.warm.keep(connection);
                Ok(rows)
            }
            Ok(Err(error)) => Err(self.refused(action, error)),
            Err(_) => {
                // Closed as it is: a goodbye would wait for an answer as well.
                drop(connection.detach());
                let problem = format!("no answer within {} s to: {action}", self.patience.as_secs());
                Err(StoreError::Unavailable { store: self.name.clone(), problem })
            }
        }
    }

    async fn run(
        &self,
        connection: &mut PoolConnection<Postgres>,
        query: Query<'_, Postgres, PgArguments>,
    ) -> sqlx::Result<Vec<PgRow>> {
        if !self.pooled {
            return query.fetch_all(&mut **connection).await;
        }
        // A proxy may hand the next message of a statement to another server unless a transaction holds this one.
        // Its isolation is said here, since what a session is told at its start would not stay with the server's.
        let mut transaction = connection.begin_with("begin isolation level read committed").await?;
        let rows = query.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(rows)
    }

    /// Runs one statement that gives exactly one row.
    pub(super) async fn row(&self, action: &'static str, query: Query<'_, Postgres, PgArguments>) -> Result<PgRow> {
        self.rows(action, query).await?.into_iter().next().ok_or_else(|| self.refused(action, sqlx::Error::RowNotFound))
    }

    /// What time it is: `now`, else what the database's clock says.
    pub(super) async fn clock(&self, action: &'static str, now: Option<Timestamp>) -> Result<Timestamp> {
        if let Some(now) = now {
            return Ok(now);
        }
        let row = self.row(action, self.query(NOW)).await?;
        time(&row, "now").map_err(|problem| StoreError::Database { action, problem })
    }

    pub(super) async fn begin_transaction(&self, action: &'static str) -> Result<Transaction<'static, Postgres>> {
        self.pool.begin().await.map_err(|error| self.refused(action, error))
    }

    /// What an error of the driver means to a caller.
    pub(super) fn refused(&self, action: &'static str, error: sqlx::Error) -> StoreError {
        refused(&self.name, action, &error)
    }
}

/// Whether a connection answers; an error when it does not in time.
async fn answers(connection: &mut PgConnection) -> sqlx::Result<bool> {
    timeout(PING_TIMEOUT, connection.ping()).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    Ok(true)
}

fn parse(url: &str, name: &str, options: PostgresOptions) -> Result<PgConnectOptions> {
    let wrong = |problem: String| StoreError::Url { url: name.to_owned(), problem };
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        return Err(wrong("expected postgres://user@host:port/database".to_owned()));
    }
    // The driver's message may quote parts of the URL, and so the password.
    let parsed = PgConnectOptions::from_str(url)
        .map_err(|_| {
            wrong(
                "cannot be read; expected postgres://user:password@host:port/database, with what is special in user and \
                 password percent-encoded, such as %40 for @"
                    .to_owned(),
            )
        })?
        .application_name("reprieve")
        .disable_statement_logging();
    if options.pooled {
        return Ok(parsed.statement_cache_capacity(0).extra_float_digits(None));
    }
    // A claim has to see what the one before it committed, whatever the database's own default is.
    let parsed = parsed.options([("default_transaction_isolation", "read committed")]);
    Ok(if options.read_only { parsed.options([("default_transaction_read_only", "on")]) } else { parsed })
}
