//! Rows per second on PostgreSQL, beside one raw statement that moves the same rows and beside a loop of single calls.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use reprieve::policy::{EngineOptions, LivePolicy, MemberSource, Origin, PolicyEngine};
use reprieve::recovery::{Generation, RecoveryOptions, Scanner};
use reprieve::store::SharedStore;
use reprieve::telemetry::{Health, Metrics};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::psql::psql;
use crate::samples::Samples;
use crate::server::Server;

const RUNS: u32 = 3;
/// A loop of single calls is measured on so many rows.
const LOOP_ROWS: u32 = 5_000;

/// Throttled outbox messages of 1 KB, as a move leaves them.
const FILL: &str = "
insert into wh_dead_letters (dead_letter_id, source_table, source_id, message_type, destination, envelope, metadata,
    failure_reason, error_text, attempts_when_dlq, dead_lettered_at, generation, source_row, source_created_at)
select gen_random_uuid(), 'wh_outbox', gen_random_uuid(), 'Shop.Orders.OrderPlaced', 'orders',
    jsonb_build_object('event_data', jsonb_build_object('order', n, 'text', b.text), 'metadata', m.metadata),
    m.metadata, 8, 'System.TimeoutException: the broker did not answer', 10,
    now() - interval '1 day' + n * interval '1 millisecond', 'g1',
    jsonb_build_object('message_id', gen_random_uuid(), 'destination', 'orders',
        'message_type', 'Shop.Orders.OrderPlaced', 'envelope_type', 'Envelope', 'scope', null, 'stream_id', null,
        'partition_number', 3, 'is_event', false, 'status', 1, 'attempts', 10, 'error', null, 'instance_id', null,
        'lease_expiry', null, 'failure_reason', 8, 'scheduled_for', null, 'created_at', now(), 'published_at', null,
        'processed_at', null),
    now()
from generate_series(1, $1) n,
    lateral (select string_agg(md5(n::text || i::text), '') as text from generate_series(1, 30) i) b,
    lateral (select jsonb_build_object('tenant', 'acme', 'correlation_id', n) as metadata) m";

/// What the same rows cost without policy, batches, records and isolation of bad rows: the same columns restored.
const RAW_MOVE: &str = "
with moved as (
    update wh_dead_letters
    set recovery_status = 3, recovered_at = now(), last_recovery_at = now(), recovery_attempts = recovery_attempts + 1,
        retried_on_generations = array_append(retried_on_generations, generation)
    where recovered_at is null and recovery_status = 0
    returning source_id, envelope, metadata, source_row
)
insert into wh_outbox (message_id, destination, message_type, envelope_type, event_data, metadata, scope, stream_id,
    partition_number, is_event, created_at)
select source_id, source_row ->> 'destination', source_row ->> 'message_type', source_row ->> 'envelope_type',
    envelope -> 'event_data', metadata, source_row -> 'scope', (source_row ->> 'stream_id')::uuid,
    (source_row ->> 'partition_number')::integer, (source_row ->> 'is_event')::boolean,
    (source_row ->> 'created_at')::timestamptz
from moved";

/// Prints the table.
pub async fn run(template: &str, rows: u32) {
    let engine = PolicyEngine::new(EngineOptions::default()).unwrap();
    let member = MemberSource::new(Origin::Builtin);
    let policy = LivePolicy::new(engine.load(vec![member]).await.unwrap());
    let (mut raw, mut looped) = (Samples::default(), Samples::default());
    let mut lanes = [1, 2, 4].map(|lanes| (lanes, Samples::default()));
    for run in 0..RUNS {
        let database = Database::filled(template, &format!("raw_{run}"), rows).await;
        raw.add(database.raw_move(rows).await);
        let database = Database::filled(template, &format!("loop_{run}"), LOOP_ROWS).await;
        looped.add(database.single_calls().await);
        for (lanes, samples) in &mut lanes {
            let database = Database::filled(template, &format!("lanes_{lanes}_{run}"), rows).await;
            samples.add(database.recovered_by_reprieve(&policy, *lanes, rows).await);
        }
    }
    println!("\n## {rows} due rows of 1 KB on PostgreSQL, rows per second: median (least to most) of {RUNS} runs\n");
    println!("| | rows/s | of the raw statement | of the loop |\n|---|---|---|---|");
    let line = |what: &str, samples: &Samples| {
        let (of_raw, of_loop) = (samples.median() / raw.median(), samples.median() / looped.median());
        println!("| {what} | {samples} | {of_raw:.2} | {of_loop:.1} |");
    };
    line("one raw statement that moves them", &raw);
    line("a loop of recover_dead_letter (5,000 rows)", &looped);
    for (lanes, samples) in &lanes {
        line(&format!("reprieve, batches of 200, lanes: {lanes}"), samples);
    }
}

/// The name of a database with the schema and nothing else.
pub async fn template() -> String {
    let server = Server::shared();
    psql(&server.url("postgres"), "create database bench_template");
    let store = open(&server.url("bench_template")).await;
    store.migrate(false).await.unwrap();
    drop(store);
    psql(
        &server.url("postgres"),
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'bench_template'",
    );
    "bench_template".to_owned()
}

pub async fn open(url: &str) -> SharedStore {
    let options = reprieve::store::open::Options { create: true, ..Default::default() };
    reprieve::store::open::open(url, &options).await.unwrap()
}

/// A database with dead letters in it.
pub struct Database {
    /// Where it is.
    pub url: String,
    pool: PgPool,
}

impl Database {
    /// A copy of the template with so many due rows.
    pub async fn filled(template: &str, name: &str, rows: u32) -> Self {
        let server = Server::shared();
        psql(&server.url("postgres"), &format!("create database {name} template {template}"));
        let url = server.url(name);
        let pool = PgPoolOptions::new().max_connections(2).connect(&url).await.unwrap();
        sqlx::query(FILL).bind(i32::try_from(rows).unwrap()).execute(&pool).await.unwrap();
        sqlx::raw_sql("vacuum analyze wh_dead_letters").execute(&pool).await.unwrap();
        sqlx::raw_sql("checkpoint").execute(&pool).await.unwrap();
        Self { url, pool }
    }

    async fn raw_move(self, rows: u32) -> f64 {
        let started = Instant::now();
        let done = sqlx::query(RAW_MOVE).execute(&self.pool).await.unwrap();
        let rate = per_second(rows, started);
        assert_eq!(done.rows_affected(), u64::from(rows));
        self.dropped().await;
        rate
    }

    async fn single_calls(self) -> f64 {
        let ids: Vec<Uuid> =
            sqlx::query_scalar("select dead_letter_id from wh_dead_letters order by dead_lettered_at, dead_letter_id")
                .fetch_all(&self.pool)
                .await
                .unwrap();
        let mut connection = self.pool.acquire().await.unwrap();
        let started = Instant::now();
        for id in &ids {
            let done: bool = sqlx::query_scalar("select recover_dead_letter($1)")
                .bind(id)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert!(done);
        }
        let rate = per_second(LOOP_ROWS, started);
        drop(connection);
        self.dropped().await;
        rate
    }

    async fn recovered_by_reprieve(self, policy: &LivePolicy, lanes: u16, rows: u32) -> f64 {
        let store = open(&self.url).await;
        let scanner = scanner(store, policy.clone(), RecoveryOptions { lanes, ..RecoveryOptions::default() });
        let started = Instant::now();
        let counts = scanner.until_idle().await.unwrap();
        let rate = per_second(rows, started);
        assert_eq!(counts.recovered, u64::from(rows));
        let there: i64 = sqlx::query_scalar("select count(*) from wh_outbox").fetch_one(&self.pool).await.unwrap();
        assert_eq!(there, i64::from(rows));
        drop(scanner);
        self.dropped().await;
        rate
    }

    /// Removes it.
    pub async fn dropped(self) {
        self.pool.close().await;
        drop_database(&self.url).await;
    }
}

/// Removes the database of a URL.
pub async fn drop_database(url: &str) {
    let name = url.rsplit('/').next().unwrap();
    let server = PgPool::connect(&Server::shared().url("postgres")).await.unwrap();
    let drop = format!("drop database {name} with (force)");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&server).await.unwrap();
}

/// A host of generation `g1`.
pub fn scanner(store: SharedStore, policy: LivePolicy, options: RecoveryOptions) -> Scanner {
    Scanner {
        store,
        policy,
        fallback: None,
        options: Arc::new(options),
        generation: Generation::fixed(Some("g1".to_owned())),
        instance: Uuid::now_v7(),
        metrics: Metrics::new(),
        health: Health::default(),
        now: None::<Timestamp>,
        shutdown: CancellationToken::new(),
        abandoned: Arc::default(),
        deferrals: Arc::default(),
        pace: Arc::default(),
        rota: Arc::default(),
    }
}

/// Rows per second since a moment.
pub fn per_second(rows: u32, started: Instant) -> f64 {
    f64::from(rows) / started.elapsed().as_secs_f64()
}
