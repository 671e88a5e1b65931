//! How a drainer behaves.

use std::time::Duration;

/// A drainer's options. The cap on attempts is its gate's, see [`super::Gate`].
#[derive(Debug, Clone)]
pub struct DrainerOptions {
    /// How long rows are leased. A step that takes longer applies nothing more, since others may have taken its rows.
    pub lease: Duration,
    /// The most streams claimed in one step.
    pub streams_per_step: u32,
}

impl Default for DrainerOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(300), streams_per_step: 200 }
    }
}
