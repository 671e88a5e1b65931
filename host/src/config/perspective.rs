//! `[perspective]`: how often a message may be claimed before it is dead-lettered.

use super::error::ConfigError;
use super::settings::Settings;

const DEFAULT: u32 = 10;
const MOST: u32 = 1000;

/// Caps on attempts, for programs that drain with the library. `None` never dead-letters for attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerspectiveConfig {
    /// Attempts that a perspective event gets.
    pub max_perspective_event_attempts: Option<u32>,
    /// Attempts that an inbox message gets.
    pub max_inbox_attempts: Option<u32>,
    /// Attempts that an outbox message gets.
    pub max_outbox_attempts: Option<u32>,
}

impl PerspectiveConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let mut cap = |key| settings.count_or_none(key, DEFAULT, 1..=MOST);
        Ok(Self {
            max_perspective_event_attempts: cap("perspective.max_perspective_event_attempts")?,
            max_inbox_attempts: cap("perspective.max_inbox_attempts")?,
            max_outbox_attempts: cap("perspective.max_outbox_attempts")?,
        })
    }
}
