//! Connections kept at hand between two statements.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Postgres;
use sqlx::pool::PoolConnection;

/// Connections that answered a moment ago, the one used last on top. The pool asks each connection that it gets back
/// whether it still answers, and hands out the one that has been idle longest: for statements that follow closely upon
/// one another that is a round trip each, and more connections than are needed, each of which the server has to warm up.
pub(super) struct Warm {
    most: usize,
    trusted_for: Duration,
    idle: Mutex<Vec<(PoolConnection<Postgres>, Instant)>>,
}

impl Warm {
    /// Keeps at most so many, which the pool counts as in use, and each for so long.
    pub(super) fn new(most: usize, trusted_for: Duration) -> Self {
        Self { most, trusted_for, idle: Mutex::default() }
    }

    /// One that answered a moment ago, if there is one.
    pub(super) fn take(&self) -> Option<PoolConnection<Postgres>> {
        let mut idle = self.idle();
        self.give_back_stale(&mut idle);
        idle.pop().map(|(connection, _)| connection)
    }

    /// Keeps one that has just answered, with nothing left to be read from it.
    pub(super) fn keep(&self, connection: PoolConnection<Postgres>) {
        let mut idle = self.idle();
        self.give_back_stale(&mut idle);
        if idle.len() < self.most {
            idle.push((connection, Instant::now()));
        }
    }

    /// The pool tries them before it hands them out again. The one that has been idle longest is at the bottom.
    fn give_back_stale(&self, idle: &mut Vec<(PoolConnection<Postgres>, Instant)>) {
        let stale = idle.partition_point(|(_, since)| since.elapsed() > self.trusted_for);
        idle.drain(..stale);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(PoolConnection<Postgres>, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Warm {
    /// Closes them as they are: the pool takes a connection back only where there is a runtime to try it in.
    fn drop(&mut self) {
        for (connection, _) in self.idle().drain(..) {
            drop(connection.detach());
        }
    }
}

impl std::fmt::Debug for Warm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Warm").field("most", &self.most).field("idle", &self.idle().len()).finish()
    }
}
