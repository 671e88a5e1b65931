//! Ways to recover all that is due in a database, each of which answers with its rows per second.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use reprieve::policy::{EngineOptions, LivePolicy, MemberSource, Origin, PolicyEngine};
use reprieve::recovery::{Generation, RecoveryOptions, Scanner};
use reprieve::store::SharedStore;
use reprieve::telemetry::{Health, Metrics};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::database::{Database, open};

/// The lanes that a host has by default.
pub const LANES: u16 = 2;

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

/// One statement that moves them: the limit.
pub async fn by_one_statement(database: &Database) -> f64 {
    let started = Instant::now();
    let done = sqlx::query(RAW_MOVE).execute(&database.pool).await.unwrap();
    let rate = per_second(database.rows, started);
    assert_eq!(done.rows_affected(), u64::from(database.rows));
    rate
}

/// A call of `recover_dead_letter` for each.
pub async fn by_single_calls(database: &Database) -> f64 {
    let in_order = "select dead_letter_id from wh_dead_letters order by dead_lettered_at, dead_letter_id";
    let ids: Vec<Uuid> = sqlx::query_scalar(in_order).fetch_all(&database.pool).await.unwrap();
    let mut connection = database.pool.acquire().await.unwrap();
    let started = Instant::now();
    for id in &ids {
        let call = sqlx::query_scalar("select recover_dead_letter($1)").bind(id);
        let done: bool = call.fetch_one(&mut *connection).await.unwrap();
        assert!(done);
    }
    per_second(database.rows, started)
}

/// A host in this process, in batches of 200.
pub async fn by_host(database: &Database, policy: &LivePolicy, lanes: u16) -> f64 {
    let store = open(&database.url).await;
    let scanner = scanner(store, policy.clone(), RecoveryOptions { lanes, ..RecoveryOptions::default() });
    let started = Instant::now();
    let counts = scanner.until_idle().await.unwrap();
    let rate = per_second(database.rows, started);
    assert_eq!(counts.recovered, u64::from(database.rows));
    assert_eq!(database.count("wh_outbox").await, database.rows);
    rate
}

/// The default matrix.
pub async fn default_matrix() -> LivePolicy {
    chain(vec![MemberSource::new(Origin::Builtin)]).await
}

/// A chain of policies.
pub async fn chain(members: Vec<MemberSource>) -> LivePolicy {
    let engine = PolicyEngine::new(EngineOptions::default()).unwrap();
    LivePolicy::new(engine.load(members).await.unwrap())
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
