//! What the gate of a drainer costs beside the claim that it stands behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprieve::model::SourceTable;
use reprieve::perspective::Gate;
use reprieve::store::SharedStore;
use reprieve::store::perspective::EventClaim;
use reprieve::telemetry::Metrics;
use uuid::Uuid;

use crate::database::{Database, open};
use crate::samples::Samples;

const RUNS: u32 = 5;
/// Rows of one stream, but that the last of them, whose attempts are spent, has a stream of its own: a claim takes nothing
/// beside such a row.
const ROWS_PER_STREAM: u32 = 100;
/// Streams of one step, as a drainer has them by default.
const STREAMS_PER_STEP: usize = 200;

const FILL: &str = "
with events as (
    insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata)
    select bench_id(now() + ((n - 1) * $1 + s) * interval '1 millisecond', 'event' || s || '/' || n),
        md5('stream' || s || case when n = $2 then 'spent' else '' end)::uuid, (n - 1) * $1 + s, 'Shop.Orders.LineAdded',
        jsonb_build_object('order', s, 'line', n, 'text', repeat(md5(n::text), 6)), '{\"tenant\": \"acme\"}'
    from generate_series(1, $1) s, generate_series(1, $2) n
    returning event_id, stream_id, commit_sequence
)
insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, attempts)
select bench_id(now() + e.commit_sequence * interval '1 millisecond', 'work' || e.event_id), e.stream_id, 'totals',
    e.event_id,
    case when e.commit_sequence > ($2 - 1) * $1 then 10 else 0 end
from events e order by e.commit_sequence";

/// Prints the table.
pub async fn run(rows: u32) {
    let rows = rows.max(ROWS_PER_STREAM) / ROWS_PER_STREAM * ROWS_PER_STREAM;
    let (mut bare, mut filtered) = (Samples::default(), Samples::default());
    for _ in 0..RUNS {
        bare.add_time(measured(rows, false).await);
        filtered.add_time(measured(rows, true).await);
    }
    println!(
        "\n## draining: {rows} perspective events are claimed, 1 % of them spent, in ms: median (least to most) of {RUNS} runs\n"
    );
    println!("| | ms | of the bare claim |\n|---|---|---|");
    println!("| claim | {bare} | 1 |");
    println!("| claim, then the gate, which moves the spent ones | {filtered} | {} |", filtered.over(&bare));
}

/// How long it takes to claim all streams of a fresh database.
async fn measured(rows: u32, with_gate: bool) -> Duration {
    let database = Database::empty().await;
    let streams = i32::try_from(rows / ROWS_PER_STREAM).unwrap();
    let rows_per_stream = i32::try_from(ROWS_PER_STREAM).unwrap();
    sqlx::query(FILL).bind(streams).bind(rows_per_stream).execute(&database.pool).await.unwrap();
    for table in ["wh_perspective_events", "wh_event_store"] {
        database.settled(table).await;
    }
    let store = open(&database.url).await;
    let time = drain(&store, rows, with_gate).await;
    let moved = if with_gate { rows / ROWS_PER_STREAM } else { 0 };
    assert_eq!(database.count("wh_dead_letters").await, moved);
    drop(store);
    database.dropped().await;
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
