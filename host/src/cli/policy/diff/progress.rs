//! Saying how far a long comparison is.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::cli::output::tell;

/// How often a terminal's line is written again.
const ON_A_TERMINAL: Duration = Duration::from_millis(500);
/// How often a line is added to what is no terminal.
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Tells on standard error: on a terminal one line that changes and vanishes, elsewhere a line now and then. What takes
/// less time than that tells nothing.
pub struct Progress {
    started: Instant,
    told: Instant,
    terminal: bool,
    line: bool,
}

impl Progress {
    /// Starts the clock.
    pub fn start() -> Self {
        let started = Instant::now();
        Self { started, told: started, terminal: std::io::stderr().is_terminal(), line: false }
    }

    /// So many rows are done.
    pub fn at(&mut self, rows: u64) {
        let every = if self.terminal { ON_A_TERMINAL } else { ELSEWHERE };
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let milliseconds = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = rows.saturating_mul(1000) / milliseconds;
        if self.terminal {
            self.line = true;
            // Nobody is left to be told that standard error is closed.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{rows} compared, {rate} a second");
        } else {
            tell!("{rows} compared, {rate} a second");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.line {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
