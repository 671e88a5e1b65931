//! `policy bench`: what a policy costs, beside the default matrix.

mod text;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

pub use self::text::text;
use super::{FileArg, SettingsArg, cases, member, read};
use crate::cli::exit::DoesNotHold;
use crate::cli::program::Program;
use crate::cli::settings::engine_options;
use crate::model::time::read_duration;
use crate::model::view::PolicyView;
use crate::policy::{EngineOptions, MemberSource, Origin, Policy, PolicyEngine, sample_entries};

/// The longest time that one figure may take.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Arguments of `policy bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: reprieve policy bench inventory.wasm --cases cases.toml --time 3s")]
pub struct BenchArgs {
    #[command(flatten)]
    file: FileArg,
    #[command(flatten)]
    settings: SettingsArg,
    /// Ask about the entries of a case table, not about the host's samples; its settings do not count
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// How long cold calls and calls are measured, each
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = time)]
    time: Duration,
}

fn time(text: &str) -> Result<Duration, String> {
    let read = read_duration(text).map_err(|problem| format!("{text:?} {problem}"))?;
    if read > MOST_TIME {
        return Err(format!("expected a time up to {} s", MOST_TIME.as_secs()));
    }
    Ok(read)
}

/// What a policy costs, and the default matrix.
#[derive(Debug, Serialize)]
pub struct Benched {
    /// How many entries were asked about in turn.
    entries: usize,
    policy: Costs,
    default_matrix: Costs,
}

/// What one policy costs, as this machine measured it.
#[derive(Debug, Serialize)]
struct Costs {
    name: String,
    source: String,
    digest: String,
    /// The component, without those behind it.
    size_bytes: usize,
    /// Reading, compiling, checking and trying it, with nothing cached.
    cold_load_ns: u64,
    /// The same with its compiled code in the cache; null when none is kept.
    cached_load_ns: Option<u64>,
    instantiate_p50_ns: u64,
    instantiate_p99_ns: u64,
    /// Instantiating it, the three questions about an entry, throwing it away.
    cold_call_p50_ns: u64,
    cold_call_p99_ns: u64,
    /// The three questions about an entry in an instance that has answered before.
    call_p50_ns: u64,
    call_p99_ns: u64,
    /// The most that an instance had, with those behind it.
    memory_bytes: usize,
    cold_calls: usize,
    calls: usize,
}

/// Measures both, one after the other.
///
/// # Errors
///
/// The file is no policy, or the table none; [`DoesNotHold`] when the policy fails on an entry or there is none.
pub async fn bench(args: &BenchArgs, program: &Program) -> anyhow::Result<Benched> {
    let now = Timestamp::now();
    let entries = match &args.cases {
        None => sample_entries(now),
        Some(file) => {
            let cases = cases::read(file, &read(file)?, now)?;
            cases.iter().map(|case| PolicyView::of(&case.entry)).collect()
        }
    };
    if entries.is_empty() {
        return Err(DoesNotHold("the table has no case: there is nothing to ask about".to_owned()).into());
    }
    let options = engine_options(&program.config.policy);
    let measure = async |source| Costs::of(source, &options, &entries, now, args.time).await;
    Ok(Benched {
        entries: entries.len(),
        policy: measure(member(&args.file.file, args.settings.settings.as_deref())).await?,
        default_matrix: measure(MemberSource::new(Origin::Builtin)).await?,
    })
}

impl Costs {
    async fn of(
        source: MemberSource,
        options: &EngineOptions,
        entries: &[PolicyView],
        now: Timestamp,
        time: Duration,
    ) -> anyhow::Result<Self> {
        let cold = EngineOptions { cache_dir: None, ..options.clone() };
        let (cold_load, policy) = loaded(&cold, &source).await?;
        let cached_load = match options.cache_dir {
            None => None,
            Some(_) => {
                loaded(options, &source).await?;
                Some(loaded(options, &source).await?.0)
            }
        };
        let measured = policy.measure(entries.to_vec(), now, time).await;
        let mut measured = measured.map_err(|failure| DoesNotHold(failure.to_string()))?;
        let [instantiate, cold_call, call] = [&mut measured.instantiate, &mut measured.cold_call, &mut measured.call]
            .map(|times| {
                times.sort_unstable();
                (nanoseconds(quantile(times, 50)), nanoseconds(quantile(times, 99)))
            });
        let first = policy.about().first();
        Ok(Self {
            name: policy.name().to_owned(),
            source: source.origin.to_string(),
            digest: policy.digest().to_owned(),
            size_bytes: first.map_or(0, |first| first.size),
            cold_load_ns: nanoseconds(cold_load),
            cached_load_ns: cached_load.map(nanoseconds),
            instantiate_p50_ns: instantiate.0,
            instantiate_p99_ns: instantiate.1,
            cold_call_p50_ns: cold_call.0,
            cold_call_p99_ns: cold_call.1,
            call_p50_ns: call.0,
            call_p99_ns: call.1,
            memory_bytes: measured.peak_memory_bytes,
            cold_calls: measured.cold_call.len(),
            calls: measured.call.len(),
        })
    }
}

/// Loads a policy in an engine of its own, which has compiled nothing yet.
async fn loaded(options: &EngineOptions, source: &MemberSource) -> anyhow::Result<(Duration, Policy)> {
    let engine = PolicyEngine::new(options.clone())?;
    let started = Instant::now();
    let policy = engine.load(vec![source.clone()]).await?;
    Ok((started.elapsed(), policy))
}

/// The time that so many of a hundred stay within; the times are in their order.
fn quantile(times: &[Duration], percent: usize) -> Duration {
    let place = (times.len().saturating_sub(1) * percent).div_ceil(100);
    times.get(place).copied().unwrap_or_default()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_time_that_was_measured() {
        let times: Vec<Duration> = (1..=100).map(Duration::from_nanos).collect();
        assert_eq!(quantile(&times, 50), Duration::from_nanos(51));
        assert_eq!(quantile(&times, 99), Duration::from_nanos(100));
        assert_eq!(quantile(&[], 99), Duration::ZERO);
    }
}
