//! From the configuration to the options of the parts that it configures.

use crate::config::{self, CacheDir, LimitsConfig, PolicyConfig, RecoveryConfig};
use crate::policy::{EngineOptions, Limits, MemberSource, Origin, default_cache_dir};
use crate::recovery::RecoveryOptions;
use crate::store::KeepSettled;
use crate::telemetry::logs::LogFormat;

/// The worker's options.
pub fn recovery_options(config: &RecoveryConfig) -> RecoveryOptions {
    RecoveryOptions {
        scan_interval: config.scan_interval,
        scan_batch_size: config.scan_batch_size,
        enable_generation_replay: config.enable_generation_replay,
        generation_replay_stagger: config.generation_replay_stagger,
        signals: config.signals,
        probe_interval: config.probe_interval,
        lease: config.lease,
        lanes: config.lanes,
        max_policy_errors: config.max_policy_errors,
        on_policy_error: config.on_policy_error,
        held_blocks_stream: config.held_blocks_stream,
        decision_retention: config.decision_retention,
        settled_retention: KeepSettled {
            recovered: config.recovered_retention,
            permanently_failed: config.permanently_failed_retention,
        },
    }
}

/// The policy engine's options.
pub fn engine_options(config: &PolicyConfig) -> EngineOptions {
    EngineOptions {
        limits: limits(&config.limits),
        cache_dir: match &config.cache_dir {
            CacheDir::Default => default_cache_dir(),
            CacheDir::Off => None,
            CacheDir::At(folder) => Some(folder.clone()),
        },
        threads: config.threads,
    }
}

fn limits(config: &LimitsConfig) -> Limits {
    Limits {
        call_time: config.call_time,
        start_time: config.start_time,
        memory_bytes: config.memory_bytes,
        stack_bytes: config.stack_bytes,
        instances: config.instances,
        memories: config.memories,
        tables: config.tables,
        table_elements: config.table_elements,
        name_chars: config.name_chars,
        log_lines: config.log_lines,
        log_bytes: config.log_bytes,
    }
}

/// The members of the configured policy.
pub fn chain(config: &PolicyConfig) -> Vec<MemberSource> {
    config
        .chain
        .iter()
        .map(|member| MemberSource {
            // Reading an origin cannot fail.
            origin: member.path.parse().unwrap_or(Origin::Builtin),
            settings: member.settings.clone(),
            sha256: member.sha256.clone(),
        })
        .collect()
}

/// How log lines look.
pub const fn log_format(format: config::LogFormat) -> LogFormat {
    match format {
        config::LogFormat::Text => LogFormat::Text,
        config::LogFormat::Json => LogFormat::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    #[test]
    fn what_is_not_configured_is_the_default_of_the_part() {
        let config = Config::load(None, std::iter::empty(), Overrides::default()).unwrap();

        assert_eq!(recovery_options(&config.recovery), RecoveryOptions::default());
        assert_eq!(limits(&config.policy.limits), Limits::default());
    }
}
