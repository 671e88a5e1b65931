//! Gauges over the whole table, read when somebody asks for metrics, but not too often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Mutex;

use super::HttpState;
use crate::store::Stats;
use crate::telemetry::Metrics;

/// The least time between two readings.
const REST: Duration = Duration::from_secs(5);
/// A reading that took long is followed by a rest of so many times its length, so that a huge table is not read
/// all the time.
const REST_FACTOR: u32 = 20;
/// How long a request waits for a reading; after that it gets the numbers of the last one.
const PATIENCE: Duration = Duration::from_secs(1);

/// When the gauges may be read again. Locked while they are being read.
#[derive(Debug, Default)]
pub(super) struct Refresh(Arc<Mutex<Option<Instant>>>);

/// Reads the gauges, unless they are fresh or being read by another request.
pub(super) async fn refresh(state: &HttpState) {
    let Ok(mut not_before) = Arc::clone(&state.refresh.0).try_lock_owned() else { return };
    if not_before.is_some_and(|at| Instant::now() < at) {
        return;
    }
    let (store, metrics) = (state.store.clone(), state.metrics.clone());
    // A task of its own: a client that goes away must not leave the rest uncounted.
    let reading = tokio::spawn(async move {
        let began = Instant::now();
        match store.stats(None).await {
            Ok(stats) => set(&metrics, &stats),
            Err(error) => tracing::debug!(%error, "the gauges could not be read"),
        }
        *not_before = Some(Instant::now() + REST.max(began.elapsed() * REST_FACTOR));
    });
    let _ = tokio::time::timeout(PATIENCE, reading).await;
}

fn set(metrics: &Metrics, stats: &Stats) {
    for (status, count) in &stats.by_status {
        metrics.gauges().rows(*status, *count);
    }
    metrics.gauges().oldest_due(stats.oldest_due, Timestamp::now());
}
