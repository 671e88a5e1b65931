//! What a policy answers.

use std::time::Duration;

/// How often and how soon a dead letter may be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryPolicy {
    /// Shown in metrics, logs and recorded decisions.
    pub name: String,
    /// 0: never, unless an operator or a new generation grants an attempt.
    pub max_recovery_attempts: u32,
    /// From one attempt to the next; doubled after each failed one. The component gives whole milliseconds.
    pub cooldown: Duration,
    /// When the attempts are spent: true holds the row for an operator, false marks it permanently failed.
    pub hold_for_review_after_exhaustion: bool,
    /// Whether the cooldown also passes before the first attempt, counted from the dead-lettering.
    pub delay_first_attempt: bool,
}

/// Whether a dead letter waits for the earlier ones of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// It is recovered by itself.
    PerMessage,
    /// It keeps its place among the dead letters of its stream.
    TailAware,
}

impl StreamMode {
    /// The name in JSON and in case tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerMessage => "per-message",
            Self::TailAware => "tail-aware",
        }
    }
}

/// The answers to the three questions about one dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Whether to try at all now.
    pub should_recover: bool,
    /// How often and how soon.
    pub policy: RecoveryPolicy,
    /// Whether it waits for its siblings.
    pub stream_mode: StreamMode,
}
