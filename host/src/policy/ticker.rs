//! Epochs: the clock that stops guest code.

use std::thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

use super::Limits;

/// The longest time between two ticks.
const SLOWEST: Duration = Duration::from_millis(10);

/// The time between two ticks: a tenth of the shortest limit, from 1 to 10 ms.
pub fn period(limits: &Limits) -> Duration {
    (limits.call_time.min(limits.start_time) / 10).clamp(Duration::from_millis(1), SLOWEST)
}

/// How many ticks from now a limit has passed for certain.
pub fn ticks(limit: Duration, period: Duration) -> u64 {
    let whole = limit.as_nanos().div_ceil(period.as_nanos().max(1));
    u64::try_from(whole).unwrap_or(u64::MAX - 1).saturating_add(1)
}

/// Starts the engine's ticker, which ends with the engine.
///
/// # Errors
///
/// The system has no thread left.
pub fn start(engine: &Engine, period: Duration) -> std::io::Result<()> {
    let engine = engine.weak();
    thread::Builder::new().name("policy-ticker".to_owned()).spawn(move || tick(&engine, period)).map(drop)
}

fn tick(engine: &EngineWeak, period: Duration) {
    while let Some(engine) = engine.upgrade() {
        engine.increment_epoch();
        drop(engine);
        thread::sleep(period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_never_cut_short() {
        assert_eq!(ticks(Duration::from_millis(100), SLOWEST), 11);
        assert_eq!(ticks(Duration::from_millis(5), SLOWEST), 2);
    }
}
