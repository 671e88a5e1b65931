//! `[recovery]`: how the worker behaves.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::settings::Settings;
use crate::model::OnPolicyError;

const HOUR: Duration = Duration::from_secs(60 * 60);
const DECISION_RETENTION: Duration = Duration::from_secs(720 * 60 * 60);
const RECOVERED_RETENTION: Duration = Duration::from_secs(2160 * 60 * 60);
/// How long what is settled may be kept.
const RETENTIONS: RangeInclusive<Duration> = HOUR..=Duration::from_secs(87_600 * 60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The worker's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryConfig {
    /// The kill switch: false runs no sweep and no scan.
    pub enabled: bool,
    /// The longest time between two scans.
    pub scan_interval: Duration,
    /// Rows decided per cycle.
    pub scan_batch_size: u32,
    /// Whether a new generation is swept at start.
    pub enable_generation_replay: bool,
    /// The build tag of the application; none when it is read from `generation_file` or not set at all.
    pub generation: Option<String>,
    /// A file that holds the tag; none when `generation` is set.
    pub generation_file: Option<PathBuf>,
    /// Spread a sweep's rows over this window.
    pub generation_replay_stagger: Duration,
    /// Whether to subscribe to the store's signals; false polls only.
    pub signals: bool,
    /// How often an idle worker looks whether a row is due.
    pub probe_interval: Duration,
    /// How long a batch lasts; it is renewed while it is worked on.
    pub lease: Duration,
    /// Batches of one host that are recovered at once; as many again are decided meanwhile.
    pub lanes: u16,
    /// Failed calls of one policy on one row after which the row is held.
    pub max_policy_errors: u32,
    /// What becomes of a row on which the policy fails.
    pub on_policy_error: OnPolicyError,
    /// How long the recorded decisions about a settled dead letter are kept after the newest of them; none: for ever.
    pub decision_retention: Option<Duration>,
    /// How long a dead letter is kept after its recovery; none: for ever.
    pub recovered_retention: Option<Duration>,
    /// How long a permanently failed dead letter is kept after the last that is known of it; none: for ever.
    pub permanently_failed_retention: Option<Duration>,
    /// Whether a held row stops its stream.
    pub held_blocks_stream: bool,
}

impl RecoveryConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
        settings.only_one("recovery.generation", "recovery.generation_file")?;
        let lanes = settings.count("recovery.lanes", 2, 1..=16)?;
        Ok(Self {
            enabled: settings.flag("recovery.enabled", true)?,
            scan_interval: settings.duration("recovery.scan_interval", seconds(600), seconds(1)..=DAY)?,
            scan_batch_size: settings.count("recovery.scan_batch_size", 200, 1..=10_000)?,
            enable_generation_replay: settings.flag("recovery.enable_generation_replay", true)?,
            generation: settings.text("recovery.generation", None)?,
            generation_file: settings.text("recovery.generation_file", None)?.map(PathBuf::from),
            generation_replay_stagger: settings.duration(
                "recovery.generation_replay_stagger",
                Duration::ZERO,
                Duration::ZERO..=DAY,
            )?,
            signals: settings.flag("recovery.signals", true)?,
            probe_interval: settings.duration("recovery.probe_interval", seconds(2), millis(100)..=seconds(600))?,
            lease: settings.duration("recovery.lease", seconds(60), seconds(5)..=HOUR)?,
            lanes: u16::try_from(lanes).unwrap_or(u16::MAX),
            max_policy_errors: settings.count("recovery.max_policy_errors", 5, 1..=100)?,
            on_policy_error: settings.word(
                "recovery.on_policy_error",
                "defer",
                &[("defer", OnPolicyError::Defer), ("fallback", OnPolicyError::Fallback)],
                OnPolicyError::Defer,
            )?,
            decision_retention: settings.duration_or_none(
                "recovery.decision_retention",
                Some(DECISION_RETENTION),
                RETENTIONS,
            )?,
            recovered_retention: settings.duration_or_none(
                "recovery.recovered_retention",
                Some(RECOVERED_RETENTION),
                RETENTIONS,
            )?,
            permanently_failed_retention: settings.duration_or_none(
                "recovery.permanently_failed_retention",
                None,
                RETENTIONS,
            )?,
            held_blocks_stream: settings.flag("recovery.held_blocks_stream", false)?,
        })
    }
}
