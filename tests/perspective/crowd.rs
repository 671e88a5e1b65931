//! Eight drainers on two hundred streams of one PostgreSQL database, while things fail, lapse and are killed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use reprieve::model::SourceTable;
use reprieve::perspective::{Apply, ApplyError, Cooldown, Drained, Drainer, DrainerOptions, Gate};
use reprieve::store::perspective::{ClaimedEvent, StoredEvent};
use reprieve::store::{SharedStore, StoreError};
use tokio::sync::Notify;
use uuid::Uuid;

use super::LEASE;
use super::program::gate;
use crate::harness::backend::{open_store, run};
use crate::harness::{Backend, at, migrated_database};

const STREAMS: u64 = 200;
const EVENTS: u64 = 6;
const DRAINERS: u64 = 8;
/// Streams whose third event no read model can take.
const POISONED: u64 = 4;
/// How often, at most, a drainer is killed, and every lease lapses. Each charges an attempt to all events of the
/// streams in hand: with twice as many, whole streams of a run in thirty come to eleven and die.
const KILLS: i64 = 30;
const LAPSES: i64 = 8;
/// How often a drainer is killed when a read model has just taken an event that is not reported yet.
const KILLS_AFTER_APPLYING: i64 = 5;

/// Events on every stream, two perspectives each, and a journal of the changes of owners.
const FILL: &str = "
create table journal (event_work_id uuid not null);
create function journal() returns trigger language plpgsql as $$
begin insert into journal values (new.event_work_id); return null; end $$;
create trigger journal after update on wh_perspective_events for each row
    when (new.instance_id is not null and new.instance_id is distinct from old.instance_id) execute function journal();
insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata)
select gen_random_uuid(), md5('stream' || s)::uuid, n * 1000 + s, 'Placed', jsonb_build_object('n', n, 's', s), '{}'
from generate_series(1, $STREAMS) s, generate_series(1, $EVENTS) n;
insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
select gen_random_uuid(), e.stream_id, p.name, e.event_id
from wh_event_store e, (values ('totals'), ('invoices')) p (name);";

/// What all drainers share: the clock, the dice, and the read models.
struct World {
    store: SharedStore,
    seconds: AtomicI64,
    dice: AtomicU64,
    /// How often something may still go wrong with the drainers themselves.
    kills: AtomicI64,
    lapses: AtomicI64,
    kills_after_applying: AtomicI64,
    /// By stream and perspective, the events in the order in which each was first applied.
    first: Mutex<HashMap<(u64, String), Vec<u64>>>,
    repeats: AtomicI64,
}

impl World {
    /// True once in so many times.
    fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A number below another, by a generator that needs no luck.
    fn below(&self, limit: u64) -> u64 {
        let step = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) % limit
    }

    fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    fn applied(&self, event: &Placed, perspective: &str) {
        let mut first = self.first.lock().unwrap();
        let applied = first.entry((event.stream, perspective.to_owned())).or_default();
        if applied.contains(&event.number) {
            self.repeats.fetch_add(1, Ordering::Relaxed);
        } else {
            applied.push(event.number);
        }
    }
}

/// The read models as one process writes them.
struct Process {
    world: Arc<World>,
    dies: Notify,
}

struct Placed {
    stream: u64,
    number: u64,
}

#[async_trait]
impl Apply for Process {
    type Event = Placed;

    fn deserialize(&self, event: &StoredEvent) -> Result<Placed, ApplyError> {
        let body: serde_json::Value = serde_json::from_str(&event.event_data).map_err(ApplyError::unreadable)?;
        Ok(Placed { stream: body["s"].as_u64().unwrap(), number: body["n"].as_u64().unwrap() })
    }

    async fn apply(&self, row: &ClaimedEvent, event: &Placed) -> Result<(), ApplyError> {
        let world = &self.world;
        tokio::task::yield_now().await;
        // Meanwhile every lease lapses.
        if world.once_in(100) && world.lapses.fetch_sub(1, Ordering::Relaxed) > 0 {
            world.pass(61);
        }
        if (event.stream <= POISONED && event.number == 3) || world.once_in(25) {
            return Err(ApplyError::other("not now"));
        }
        world.applied(event, &row.perspective_name);
        if world.once_in(100) && world.kills_after_applying.fetch_sub(1, Ordering::Relaxed) > 0 {
            self.dies.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Process {
    fn new(world: Arc<World>) -> Arc<Self> {
        Arc::new(Self { world, dies: Notify::new() })
    }

    /// Ends when the process dies of itself, or at any moment, in the middle of whatever the drainer is doing, while
    /// there are kills left.
    async fn killed(&self) {
        let at_any_moment = async {
            tokio::time::sleep(Duration::from_micros(self.world.below(80_000))).await;
            if self.world.kills.fetch_sub(1, Ordering::Relaxed) <= 0 {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.dies.notified() => {}
            () = at_any_moment => {}
        }
    }
}

/// One process after another drains, each until it is killed, the last until nothing is left to do.
async fn drains(world: Arc<World>, gate: Gate) -> Result<Drained, StoreError> {
    let mut total = Drained::default();
    let mut instance_id = Uuid::now_v7();
    loop {
        let process = Process::new(world.clone());
        let drainer = Drainer {
            store: world.store.clone(),
            apply: process.clone(),
            gate: Gate { instance_id, ..gate.clone() },
            cooldown: Cooldown::default(),
            instance_id,
            options: DrainerOptions { lease: LEASE, streams_per_step: 20 },
            now: Some(at(world.seconds.load(Ordering::Relaxed))),
        };
        let step =
            async { if world.once_in(4) { drainer.adopt_orphans(30).await } else { drainer.until_idle().await } };
        tokio::select! {
            biased;
            done = step => total += done?,
            () = process.killed() => instance_id = Uuid::now_v7(),
        }
        let open = world.store.pending_streams(Uuid::nil(), 1, Some(at(i64::from(i32::MAX)))).await?;
        if open.is_empty() {
            return Ok(total);
        }
        world.pass(1);
    }
}

#[test]
fn eight_drainers_apply_every_event_in_order_and_count_every_takeover() {
    let url = migrated_database();
    run(async {
        let store = Backend::at(url.clone(), None).await;
        let fill = FILL.replace("$STREAMS", &STREAMS.to_string()).replace("$EVENTS", &EVENTS.to_string());
        store.execute(&fill).await;
        let world = Arc::new(World {
            store: open_store(&url).await,
            seconds: AtomicI64::new(0),
            dice: AtomicU64::new(1),
            kills: AtomicI64::new(KILLS),
            lapses: AtomicI64::new(LAPSES),
            kills_after_applying: AtomicI64::new(KILLS_AFTER_APPLYING),
            first: Mutex::default(),
            repeats: AtomicI64::new(0),
        });
        let gate = gate(&store, SourceTable::PerspectiveEvents, 1);

        let drainers: Vec<_> = (0..DRAINERS).map(|_| tokio::spawn(drains(world.clone(), gate.clone()))).collect();
        for drainer in drainers {
            drainer.await.unwrap().expect("no deadlock, and no other error");
        }

        let dead = store
            .query(
                "select (e.event_data ->> 's')::int as stream, (e.event_data ->> 'n')::int as number,
                   d.perspective_name as perspective, d.attempts_when_dlq as attempts
                 from wh_dead_letters d join wh_event_store e on e.event_id = (d.envelope ->> 'event_id')::uuid",
            )
            .await;
        // More than eleven when the one that claimed it was killed before it could move it.
        assert!(dead.iter().all(|letter| letter["attempts"].as_i64() >= Some(11)), "{dead:?}");
        let is_dead = |stream: u64, perspective: &str, number: u64| {
            dead.iter().any(|d| d["stream"] == stream && d["perspective"] == perspective && d["number"] == number)
        };
        let first = world.first.lock().unwrap().clone();
        for (stream, perspective) in (1..=STREAMS).flat_map(|stream| [(stream, "totals"), (stream, "invoices")]) {
            let applied = &first[&(stream, perspective.to_owned())];
            assert!(applied.is_sorted(), "stream {stream}, {perspective}: {applied:?}");
            let missing = (1..=EVENTS).filter(|n| !applied.contains(n));
            missing.for_each(|n| assert!(is_dead(stream, perspective, n), "stream {stream}, {perspective}, event {n}"));
            assert!(stream > POISONED || is_dead(stream, perspective, 3), "the poison of stream {stream}");
        }
        assert_eq!(store.rows_in("wh_perspective_events where processed_at is null").await, 0);
        let poison = usize::try_from(2 * POISONED).unwrap();
        assert!(dead.len() < 2 * poison, "hardly anything dies of kills and lapses: {dead:?}");
        let miscounted = "select count(*) from (
            select w.event_work_id as id, w.attempts from wh_perspective_events w
            union all select d.source_id, d.attempts_when_dlq from wh_dead_letters d) w
            where w.attempts <> (select count(*) from journal j where j.event_work_id = w.id)";
        assert_eq!(store.value(miscounted).await, 0);
        assert!(world.kills.load(Ordering::Relaxed) < KILLS / 2 && world.lapses.load(Ordering::Relaxed) < LAPSES / 2);
        assert!(world.repeats.load(Ordering::Relaxed) >= KILLS_AFTER_APPLYING, "killed before they could report");
    });
}
