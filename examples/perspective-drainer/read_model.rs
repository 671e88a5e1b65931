//! The program's own SQL, on either store: its events and its read model, a table with a line for each event.

use anyhow::Context;
use jiff::Timestamp;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use uuid::Uuid;

use crate::orders::{LineAdded, NewEvent};

const CREATE: &str = "create table if not exists order_lines (
    event_id text primary key, customer text not null, cents bigint not null)";
/// A line that is there already is not added again.
const ADD: &str = "insert into order_lines (event_id, customer, cents) values ($1, $2, $3) on conflict do nothing";
const TOTALS: &str =
    "select customer, count(*), cast(sum(cents) as bigint) from order_lines group by customer order by 1";
const MISSING: &str = "select (select count(*) from wh_event_store) - (select count(*) from order_lines)";
const TABLES_ON_POSTGRES: &str =
    "select count(*) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')";
const TABLES_ON_SQLITE: &str = "select count(*) from sqlite_master";
const LAST_FAILURE: &str = "select cast(attempts as bigint), error from wh_perspective_events where error is not null";
const ATTEMPTS_OF_THE_DEAD: &str = "select cast(attempts_when_dlq as bigint) from wh_dead_letters";

const EVENT_ON_POSTGRES: &str = "insert into wh_event_store
    (event_id, stream_id, commit_sequence, event_type, event_data, metadata, created_at)
    values ($1, $2, $3, 'LineAdded', $4::jsonb, '{}', $5::timestamptz)";
const ROW_ON_POSTGRES: &str = "insert into wh_perspective_events
    (event_work_id, stream_id, perspective_name, event_id, created_at)
    values ($1, $2, 'order_lines', $3, $4::timestamptz)";
const EVENT_ON_SQLITE: &str = "insert into wh_event_store
    (event_id, stream_id, commit_sequence, event_type, event_data, metadata, created_at)
    values ($1, $2, $3, 'LineAdded', $4, '{}', $5)";
const ROW_ON_SQLITE: &str = "insert into wh_perspective_events
    (event_work_id, stream_id, perspective_name, event_id, created_at) values ($1, $2, 'order_lines', $3, $4)";

/// The program's own connections.
#[derive(Clone)]
pub enum ReadModel {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Runs one query on whichever database it is.
macro_rules! on_either {
    ($model:expr, $pool:ident => $query:expr) => {
        match $model {
            ReadModel::Postgres($pool) => $query.await?,
            ReadModel::Sqlite($pool) => $query.await?,
        }
    };
}

impl ReadModel {
    /// Connects to a store's URL.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let model = match url.strip_prefix("sqlite://") {
            Some(_) => Self::Sqlite(SqlitePoolOptions::new().max_connections(1).connect(url).await?),
            None => Self::Postgres(PgPoolOptions::new().max_connections(2).connect(url).await?),
        };
        Ok(model)
    }

    /// Makes the table.
    pub async fn create(&self) -> anyhow::Result<()> {
        match self {
            Self::Postgres(pool) => sqlx::query(CREATE).execute(pool).await.map(drop)?,
            Self::Sqlite(pool) => sqlx::query(CREATE).execute(pool).await.map(drop)?,
        }
        Ok(())
    }

    /// Whether the database has no table yet.
    pub async fn is_empty(&self) -> anyhow::Result<bool> {
        let tables = match self {
            Self::Postgres(_) => TABLES_ON_POSTGRES,
            Self::Sqlite(_) => TABLES_ON_SQLITE,
        };
        self.number(tables).await.map(|tables| tables == 0)
    }

    /// Events that are not in the read model.
    pub async fn missing(&self) -> anyhow::Result<i64> {
        self.number(MISSING).await
    }

    /// How often the dead row was claimed.
    pub async fn attempts_of_the_dead(&self) -> anyhow::Result<i64> {
        self.number(ATTEMPTS_OF_THE_DEAD).await
    }

    async fn number(&self, query: &'static str) -> anyhow::Result<i64> {
        Ok(on_either!(self, pool => sqlx::query_scalar(query).fetch_one(pool)))
    }

    /// The attempts and the error of the row that has failed.
    pub async fn last_failure(&self) -> anyhow::Result<(i64, String)> {
        Ok(on_either!(self, pool => sqlx::query_as(LAST_FAILURE).fetch_one(pool)))
    }

    /// By customer, how many events there are and what they come to.
    pub async fn totals(&self) -> anyhow::Result<Vec<(String, i64, i64)>> {
        Ok(on_either!(self, pool => sqlx::query_as(TOTALS).fetch_all(pool)))
    }

    /// Adds a line to the read model.
    pub async fn add(&self, event_id: Uuid, line: &LineAdded) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(pool) => {
                let query = sqlx::query(ADD).bind(event_id.to_string()).bind(line.customer.clone()).bind(line.cents);
                query.execute(pool).await.map(drop)
            }
            Self::Sqlite(pool) => {
                let query = sqlx::query(ADD).bind(event_id.to_string()).bind(line.customer.clone()).bind(line.cents);
                query.execute(pool).await.map(drop)
            }
        }
    }

    /// Stores events, each with the row that asks for it to be applied.
    pub async fn insert_events(&self, events: &[NewEvent], now: Timestamp) -> anyhow::Result<()> {
        let now = format!("{now:.6}");
        for (event, sequence) in events.iter().zip(1_i64..) {
            let (event_id, work_id) = (Uuid::now_v7(), Uuid::now_v7());
            let stored = match self {
                Self::Postgres(pool) => insert_on_postgres(pool, event, sequence, event_id, work_id, &now).await,
                Self::Sqlite(pool) => insert_on_sqlite(pool, event, sequence, event_id, work_id, &now).await,
            };
            stored.with_context(|| format!("event {sequence} cannot be stored"))?;
        }
        Ok(())
    }
}

async fn insert_on_postgres(
    pool: &PgPool,
    event: &NewEvent,
    sequence: i64,
    event_id: Uuid,
    work_id: Uuid,
    now: &str,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(EVENT_ON_POSTGRES).bind(event_id).bind(event.stream_id).bind(sequence);
    query.bind(event.data.clone()).bind(now.to_owned()).execute(pool).await?;
    let query = sqlx::query(ROW_ON_POSTGRES).bind(work_id).bind(event.stream_id).bind(event_id);
    query.bind(now.to_owned()).execute(pool).await.map(drop)
}

async fn insert_on_sqlite(
    pool: &SqlitePool,
    event: &NewEvent,
    sequence: i64,
    event_id: Uuid,
    work_id: Uuid,
    now: &str,
) -> Result<(), sqlx::Error> {
    let [event_id, work_id, stream_id] = [event_id, work_id, event.stream_id].map(|id| id.to_string());
    let query = sqlx::query(EVENT_ON_SQLITE).bind(event_id.clone()).bind(stream_id.clone()).bind(sequence);
    query.bind(event.data.clone()).bind(now.to_owned()).execute(pool).await?;
    let query = sqlx::query(ROW_ON_SQLITE).bind(work_id).bind(stream_id).bind(event_id);
    query.bind(now.to_owned()).execute(pool).await.map(drop)
}
