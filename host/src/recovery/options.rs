//! How the worker behaves.

use std::time::Duration;

use crate::model::OnPolicyError;
use crate::store::KeepSettled;

/// The worker's options. Ranges are checked where they are read, by the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// The longest time between two scans; also how long a row rests that the policy skipped.
    pub scan_interval: Duration,
    /// Rows claimed at once, and rows decided per scan.
    pub scan_batch_size: u32,
    /// Whether a new generation is swept at start.
    pub enable_generation_replay: bool,
    /// Spread a sweep's rows over this window.
    pub generation_replay_stagger: Duration,
    /// Whether to subscribe to the store's signals; false polls only.
    pub signals: bool,
    /// How often an idle worker looks whether a row is due.
    pub probe_interval: Duration,
    /// How long a batch lasts; it is renewed while it is worked on.
    pub lease: Duration,
    /// Batches of this host that are recovered at once; as many again are decided meanwhile.
    pub lanes: u16,
    /// Failed calls of one policy on one row after which the row is held.
    pub max_policy_errors: u32,
    /// What becomes of a row on which the policy fails.
    pub on_policy_error: OnPolicyError,
    /// Whether a held row stops its stream.
    pub held_blocks_stream: bool,
    /// How long the recorded decisions about a settled dead letter are kept after the newest of them; `None`: for ever.
    pub decision_retention: Option<Duration>,
    /// How long settled dead letters are kept.
    pub settled_retention: KeepSettled,
}

/// Ninety days.
const RECOVERED_RETENTION: Duration = Duration::from_secs(2160 * 60 * 60);

impl Default for RecoveryOptions {
    fn default() -> Self {
        Self {
            scan_interval: Duration::from_secs(10 * 60),
            scan_batch_size: 200,
            enable_generation_replay: true,
            generation_replay_stagger: Duration::ZERO,
            signals: true,
            probe_interval: Duration::from_secs(2),
            lease: Duration::from_secs(60),
            lanes: 2,
            max_policy_errors: 5,
            on_policy_error: OnPolicyError::Defer,
            held_blocks_stream: false,
            decision_retention: Some(Duration::from_secs(720 * 60 * 60)),
            settled_retention: KeepSettled { recovered: Some(RECOVERED_RETENTION), permanently_failed: None },
        }
    }
}
