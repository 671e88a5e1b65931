//! What the gate of a drainer costs beside the claim that it stands behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprieve::model::SourceTable;
use reprieve::perspective::Gate;
use reprieve::store::SharedStore;
use reprieve::store::perspective::EventClaim;
use reprieve::telemetry::Metrics;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use crate::psql::psql;
use crate::recovery::{drop_database, open};
use crate::samples::Samples;
use crate::server::Server;

const RUNS: u32 = 5;
/// Rows of one stream; the last of them has spent its attempts.
const ROWS_PER_STREAM: u32 = 100;
/// Streams of one step, as a drainer has them by default.
const STREAMS_PER_STEP: usize = 200;

const FILL: &str = "
with events as (
    insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata)
    select gen_random_uuid(), md5('stream' || s)::uuid, (n - 1) * $1 + s, 'Shop.Orders.LineAdded',
        jsonb_build_object('order', s, 'line', n, 'text', repeat(md5(n::text), 6)), '{\"tenant\": \"acme\"}'
    from generate_series(1, $1) s, generate_series(1, $2) n
    returning event_id, stream_id, commit_sequence
)
insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, attempts)
select gen_random_uuid(), e.stream_id, 'totals', e.event_id,
    case when e.commit_sequence > ($2 - 1) * $1 then 10 else 0 end
from events e order by e.commit_sequence";

/// Prints the table.
pub async fn run(template: &str, rows: u32) {
    let rows = rows.max(ROWS_PER_STREAM) / ROWS_PER_STREAM * ROWS_PER_STREAM;
    let (mut bare, mut filtered, mut ratio) = (Samples::default(), Samples::default(), Samples::default());
    for run in 0..RUNS {
        let claim = measured(template, &format!("bare_{run}"), rows, false).await;
        let both = measured(template, &format!("filtered_{run}"), rows, true).await;
        bare.add_time(claim);
        filtered.add_time(both);
        ratio.add(both.as_secs_f64() / claim.as_secs_f64());
    }
    println!(
        "\n## Claiming {rows} perspective events, 1 % of them spent, in ms: median (least to most) of {RUNS} runs\n"
    );
    println!("| | ms | of the bare claim |\n|---|---|---|");
    println!("| claim | {bare} | 1 |");
    println!("| claim, then the gate, which moves the spent ones | {filtered} | {ratio} |");
}

/// How long it takes to claim all streams of a fresh database.
async fn measured(template: &str, name: &str, rows: u32, with_gate: bool) -> Duration {
    let server = Server::shared();
    psql(&server.url("postgres"), &format!("create database {name} template {template}"));
    let url = server.url(name);
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let streams = i32::try_from(rows / ROWS_PER_STREAM).unwrap();
    sqlx::query(FILL).bind(streams).bind(i32::try_from(ROWS_PER_STREAM).unwrap()).execute(&pool).await.unwrap();
    sqlx::raw_sql("vacuum analyze wh_perspective_events").execute(&pool).await.unwrap();
    sqlx::raw_sql("vacuum analyze wh_event_store").execute(&pool).await.unwrap();
    sqlx::raw_sql("checkpoint").execute(&pool).await.unwrap();
    let store = open(&url).await;
    let time = drain(&store, rows, with_gate).await;
    let moved: i64 = sqlx::query_scalar("select count(*) from wh_dead_letters").fetch_one(&pool).await.unwrap();
    assert_eq!(moved, if with_gate { i64::from(streams) } else { 0 });
    drop(store);
    pool.close().await;
    drop_database(&url).await;
    time
}

async fn drain(store: &SharedStore, rows: u32, with_gate: bool) -> Duration {
    let instance_id = Uuid::now_v7();
    let gate = Gate {
        source_table: SourceTable::PerspectiveEvents,
        max_attempts: with_gate.then_some(10),
        dead_letters: Some(store.clone()),
        generation: Some(Arc::from("g1")),
        instance_id,
        metrics: Metrics::new(),
    };
    let streams = store.pending_streams(instance_id, u32::MAX, None).await.unwrap();
    let (mut claimed, mut left) = (0, 0);
    let started = Instant::now();
    for streams in streams.chunks(STREAMS_PER_STEP) {
        let claim = EventClaim {
            instance_id,
            streams,
            perspective: None,
            in_order: true,
            lease: Duration::from_secs(300),
            now: None,
        };
        let events = store.claim_events(&claim).await.unwrap();
        claimed += events.len();
        left += gate.filter(events, None).await.survivors.len();
    }
    let time = started.elapsed();
    assert_eq!(claimed, usize::try_from(rows).unwrap());
    let spent = if with_gate { claimed / usize::try_from(ROWS_PER_STREAM).unwrap() } else { 0 };
    assert_eq!(left, claimed - spent);
    time
}
