//! Databases to measure on: copies of one with the schema, filled with dead letters.

use std::sync::atomic::{AtomicU32, Ordering};

use reprieve::store::SharedStore;
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::psql::psql;
use crate::server::Server;

const TEMPLATE: &str = "bench_template";

/// A version-7 UUID of a time; the seed stands for its random part.
const ID_FUNCTION: &str = "
create function bench_id(p_at timestamptz, p_seed text) returns uuid language sql immutable parallel safe return (
    lpad(to_hex((extract(epoch from p_at) * 1000)::bigint), 12, '0')
        || '7' || substr(md5(p_seed), 14, 3) || '8' || substr(md5(p_seed), 18))::uuid";

/// Text that does not compress, of about $1 bytes.
const TEXT_FUNCTION: &str = "
create extension pgcrypto;
create function bench_text(p_bytes integer) returns text language sql volatile return (
    select left(string_agg(encode(gen_random_bytes(1024), 'base64'), ''), p_bytes)
    from generate_series(0, p_bytes / 1384))";

/// Throttled outbox messages as a move leaves them. $1 rows, bodies of $2 bytes, in $3 streams, created ($4) in another
/// order than they died in; $5 of them are due and, if that is not all, scattered over the table, a tenth cools down, and
/// the others are recovered.
const FILL: &str = "
insert into wh_dead_letters (dead_letter_id, source_table, source_id, stream_id, message_type, destination, envelope,
    metadata, failure_reason, error_text, error_fingerprint, error_fingerprint_version, attempts_when_dlq,
    dead_lettered_at, recovery_status, recovery_attempts, last_recovery_at, next_recovery_at, recovered_at, deferral,
    generation, source_row, source_created_at)
select bench_id(t.died_at, 'death' || n), 'wh_outbox', i.source_id, i.stream_id, 'Shop.Orders.OrderPlaced', 'orders',
    jsonb_build_object('event_data', jsonb_build_object('order', n, 'text', bench_text($2)), 'metadata', i.metadata),
    i.metadata, 8, 'System.TimeoutException: the broker did not answer', '6c1f0d2b3a495e78', 1, 10,
    t.died_at, case s.state when 'recovered' then 3 else 0 end, case when s.state is null then 0 else 1 end,
    case when s.state is not null then t.died_at end,
    case s.state when 'due' then now() - t.random * interval '1 microsecond'
        when 'cooling' then now() + interval '1 day' + t.random * interval '1 microsecond' end,
    case s.state when 'recovered' then t.died_at end, case s.state when 'cooling' then 'cooldown' end, 'g1',
    jsonb_build_object('message_id', i.source_id, 'destination', 'orders',
        'message_type', 'Shop.Orders.OrderPlaced', 'envelope_type', 'Envelope', 'scope', null, 'stream_id', i.stream_id,
        'partition_number', 3, 'is_event', false, 'status', 1, 'attempts', 10, 'error', null, 'instance_id', null,
        'lease_expiry', null, 'failure_reason', 8, 'scheduled_for', null, 'created_at', t.created_at,
        'published_at', null, 'processed_at', null),
    t.created_at
from generate_series(1, $1) n,
    lateral (select hashint8(n) & 67108863 as random) h,
    lateral (select h.random, now() - interval '1 day' + n * interval '1 millisecond' as died_at,
        now() - interval '2 days' + case when $4 then h.random else n end * interval '1 millisecond' as created_at) t,
    lateral (select bench_id(t.created_at, 'message' || n) as source_id,
        case when $3 > 0 then md5('stream' || n % greatest($3, 1))::uuid end as stream_id,
        jsonb_build_object('tenant', 'acme', 'correlation_id', n) as metadata) i,
    lateral (select case when $5 = $1 then null
        when n % ($1 / $5) = 0 and n / ($1 / $5) <= $5 then 'due'
        when n % 10 = 1 then 'cooling' else 'recovered' end as state) s";

/// Dead letters to fill a database with.
#[derive(Debug, Clone, Copy)]
pub struct Backlog {
    /// How many.
    pub rows: u32,
    /// The length of each body, about.
    pub body_bytes: u32,
    /// They belong to so many streams; with 0, to none.
    pub streams: u32,
    /// Whether they died in another order than that of their streams.
    pub shuffled: bool,
    /// So many of them are due.
    pub due: u32,
}

impl Backlog {
    /// Rows of 1 KB without streams, all of them due.
    pub const fn of(rows: u32) -> Self {
        Self { rows, body_bytes: 950, streams: 0, shuffled: false, due: rows }
    }

    /// What is measured on a fresh database with these rows, which is then removed.
    pub async fn measured<T>(self, measure: impl AsyncFnOnce(&Database) -> T) -> T {
        let database = Database::filled(self).await;
        let measured = measure(&database).await;
        database.dropped().await;
        measured
    }
}

/// A database with the schema.
pub struct Database {
    /// Where it is.
    pub url: String,
    /// Connections to it.
    pub pool: PgPool,
    /// The dead letters that it was filled with.
    pub rows: u32,
}

impl Database {
    /// Makes the database that the others are copies of.
    pub async fn prepare() {
        let server = Server::shared();
        psql(&server.url("postgres"), &format!("create database {TEMPLATE}"));
        let store = open(&server.url(TEMPLATE)).await;
        store.migrate(false).await.unwrap();
        drop(store);
        psql(&server.url(TEMPLATE), &format!("{ID_FUNCTION};{TEXT_FUNCTION}"));
        let others = format!("from pg_stat_activity where datname = '{TEMPLATE}'");
        psql(&server.url("postgres"), &format!("select pg_terminate_backend(pid) {others}"));
    }

    /// One without dead letters.
    pub async fn empty() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let server = Server::shared();
        let name = format!("bench_{}", MADE.fetch_add(1, Ordering::Relaxed));
        psql(&server.url("postgres"), &format!("create database {name} template {TEMPLATE}"));
        let url = server.url(&name);
        let pool = PgPoolOptions::new().max_connections(2).connect(&url).await.unwrap();
        Self { url, pool, rows: 0 }
    }

    /// One with dead letters, all of them on disk.
    pub async fn filled(backlog: Backlog) -> Self {
        let database = Self { rows: backlog.rows, ..Self::empty().await };
        let number = |number: u32| i32::try_from(number).unwrap();
        sqlx::query(FILL)
            .bind(number(backlog.rows))
            .bind(number(backlog.body_bytes))
            .bind(number(backlog.streams))
            .bind(backlog.shuffled)
            .bind(number(backlog.due))
            .execute(&database.pool)
            .await
            .unwrap();
        database.settled("wh_dead_letters").await;
        database
    }

    /// Runs statements.
    pub async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }

    /// Leaves nothing to be done later for a table that was filled.
    pub async fn settled(&self, table: &str) {
        self.run(&format!("vacuum analyze {table}")).await;
        self.run("checkpoint").await;
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &str) -> u32 {
        let count = format!("select count(*) from {table}");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&self.pool).await.unwrap();
        u32::try_from(rows).unwrap()
    }

    /// Removes it.
    pub async fn dropped(self) {
        self.pool.close().await;
        let name = self.url.rsplit('/').next().unwrap();
        psql(&Server::shared().url("postgres"), &format!("drop database {name} with (force)"));
    }
}

/// The store of a URL.
pub async fn open(url: &str) -> SharedStore {
    let options = reprieve::store::open::Options { create: true, ..Default::default() };
    reprieve::store::open::open(url, &options).await.unwrap()
}
