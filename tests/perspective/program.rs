//! A program that drains orders into a read model, which is a list in memory.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use reprieve::model::SourceTable;
use reprieve::perspective::{Apply, ApplyError, Cooldown, Drained, Drainer, DrainerOptions, Gate};
use reprieve::store::perspective::{ClaimedEvent, StoredEvent};
use reprieve::telemetry::Metrics;
use serde_json::Value;

use super::LEASE;
use crate::harness::{Backend, instance};

/// The read models, and what goes wrong with them.
#[derive(Default)]
pub struct Orders {
    applied: Mutex<Vec<(String, i64)>>,
    poison: Mutex<HashSet<i64>>,
    /// How many events were parsed, and how many were handed over to be applied.
    pub parsed: AtomicUsize,
    pub tried: AtomicUsize,
}

impl Orders {
    /// Read models that cannot take these orders.
    pub fn refusing(orders: &[i64]) -> Arc<Self> {
        let poison = orders.iter().copied().collect();
        Arc::new(Self { poison: Mutex::new(poison), ..Self::default() })
    }

    /// From now on they take every order.
    pub fn is_fixed(&self) {
        self.poison.lock().unwrap().clear();
    }

    /// The orders that a read model has taken, in the order in which it did.
    pub fn of(&self, perspective: &str) -> Vec<i64> {
        let applied = self.applied.lock().unwrap();
        applied.iter().filter(|(name, _)| name == perspective).map(|(_, order)| *order).collect()
    }
}

#[async_trait]
impl Apply for Orders {
    type Event = i64;

    fn deserialize(&self, event: &StoredEvent) -> Result<i64, ApplyError> {
        self.parsed.fetch_add(1, Ordering::Relaxed);
        let body: Value = serde_json::from_str(&event.event_data).map_err(ApplyError::unreadable)?;
        body["order"].as_i64().ok_or_else(|| ApplyError::unreadable("there is no order in it"))
    }

    async fn apply(&self, row: &ClaimedEvent, order: &i64) -> Result<(), ApplyError> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        if self.poison.lock().unwrap().contains(order) {
            return Err(ApplyError::other(format!("order {order} has no customer")));
        }
        self.applied.lock().unwrap().push((row.perspective_name.clone(), *order));
        Ok(())
    }
}

/// The gate of the `who`-th instance, on generation `g1`, with a cap of ten.
pub fn gate(store: &Backend, source_table: SourceTable, who: u64) -> Gate {
    Gate {
        source_table,
        max_attempts: Some(10),
        dead_letters: Some(store.shared()),
        generation: Some("g1".into()),
        instance_id: instance(who),
        metrics: Metrics::new(),
    }
}

/// The `who`-th instance.
pub fn drainer(store: &Backend, who: u64, orders: &Arc<Orders>) -> Drainer<Orders> {
    Drainer {
        store: store.shared(),
        apply: Arc::clone(orders),
        gate: gate(store, SourceTable::PerspectiveEvents, who),
        cooldown: Cooldown::default(),
        instance_id: instance(who),
        options: DrainerOptions { lease: LEASE, ..DrainerOptions::default() },
        now: None,
    }
}

/// What a test says to a drainer.
pub trait Told {
    /// Everything that can be done at this moment.
    async fn drains_at(&self, now: Timestamp) -> Drained;
}

impl Told for Drainer<Orders> {
    async fn drains_at(&self, now: Timestamp) -> Drained {
        Drainer { now: Some(now), ..self.clone() }.until_idle().await.unwrap()
    }
}

/// Whether the metrics have this line.
pub fn has_line(metrics: &Metrics, line: &str) -> bool {
    metrics.encode().lines().any(|present| present == line)
}

/// The statements after which no row can be marked as processed.
pub fn refuse_completion(store: &Backend) -> &'static str {
    if store.is_postgres() {
        return "create function refuse_completion() returns trigger language plpgsql as $$
             begin raise exception 'not yet'; end $$;
             create trigger refuse_completion before update on wh_perspective_events for each row
             when (new.processed_at is not null) execute function refuse_completion()";
    }
    "create trigger refuse_completion before update on wh_perspective_events when new.processed_at is not null
     begin select raise(abort, 'not yet'); end"
}

/// The statement that undoes it.
pub fn allow_completion(store: &Backend) -> &'static str {
    if store.is_postgres() {
        return "drop trigger refuse_completion on wh_perspective_events";
    }
    "drop trigger refuse_completion"
}
