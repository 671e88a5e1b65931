//! Measuring what asking a policy costs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::failure::PolicyFailure;
use super::instance::ChainInstance;
use super::policy::{Loaded, Policy};
use crate::model::view::PolicyView;

/// A slow policy is measured this often all the same.
const FEWEST: usize = 5;
/// More samples say nothing more.
const MOST: usize = 100_000;

/// The times of single calls on a guests' thread, without handing over to it, in the order in which they were taken.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Instantiating the whole chain.
    pub instantiate: Vec<Duration>,
    /// Instantiating it, asking the three questions about one entry, and throwing it away.
    pub cold_call: Vec<Duration>,
    /// Asking the three questions about one entry in an instance that has answered before.
    pub call: Vec<Duration>,
    /// The most bytes of memory that an instance had.
    pub peak_memory_bytes: usize,
}

impl Policy {
    /// Asks about some entries over and over, first in an instance for each and then in one for all, each for as long as
    /// `time` says, but a few times at least. Nothing is measured without entries.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn measure(
        &self,
        entries: Vec<PolicyView>,
        now: Timestamp,
        time: Duration,
    ) -> Result<Measured, PolicyFailure> {
        let mut session = self.session(now);
        let measured = session.with_seat(move |runtime, loaded, _, now_ms| {
            runtime.block_on(async {
                // What is done for the first time takes longer: pages are touched, caches are cold.
                cold(loaded, now_ms, &entries, Duration::ZERO).await?;
                let mut measured = cold(loaded, now_ms, &entries, time).await?;
                warm(loaded, now_ms, &entries, time, &mut measured).await?;
                Ok(measured)
            })
        });
        measured.await.unwrap_or_else(|| Err(session.host_failure()))
    }
}

async fn cold(loaded: &Loaded, now_ms: u64, entries: &[PolicyView], time: Duration) -> Result<Measured, PolicyFailure> {
    let mut measured = Measured::default();
    let begun = Instant::now();
    for entry in entries.iter().cycle().cloned() {
        if is_enough(measured.cold_call.len(), begun, time) {
            break;
        }
        let started = Instant::now();
        let mut instance = ChainInstance::start(loaded, now_ms).await?;
        measured.instantiate.push(started.elapsed());
        instance.ask(entry).await?;
        measured.peak_memory_bytes = measured.peak_memory_bytes.max(instance.peak_memory_bytes());
        drop(instance);
        measured.cold_call.push(started.elapsed());
    }
    Ok(measured)
}

async fn warm(
    loaded: &Loaded,
    now_ms: u64,
    entries: &[PolicyView],
    time: Duration,
    measured: &mut Measured,
) -> Result<(), PolicyFailure> {
    let mut instance = ChainInstance::start(loaded, now_ms).await?;
    for entry in entries {
        instance.ask(entry.clone()).await?;
    }
    let begun = Instant::now();
    for entry in entries.iter().cycle().cloned() {
        if is_enough(measured.call.len(), begun, time) {
            break;
        }
        let asked = Instant::now();
        instance.ask(entry).await?;
        measured.call.push(asked.elapsed());
    }
    measured.peak_memory_bytes = measured.peak_memory_bytes.max(instance.peak_memory_bytes());
    Ok(())
}

fn is_enough(samples: usize, begun: Instant, time: Duration) -> bool {
    samples >= MOST || samples >= FEWEST && begun.elapsed() >= time
}
