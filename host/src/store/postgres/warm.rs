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
    idle: Mutex<Vec<(PoolConnection<Postgres>, Instant)>>,
}

impl Warm {
    /// Keeps at most so many, which the pool counts as in use.
    pub(super) fn new(most: usize) -> Self {
        Self { most, idle: Mutex::default() }
    }

    /// One that answered less than `trusted_for` ago. All are given back to the pool, to be tried, if there is none.
    pub(super) fn take(&self, trusted_for: Duration) -> Option<PoolConnection<Postgres>> {
        let mut idle = self.idle();
        match idle.pop() {
            Some((connection, since)) if since.elapsed() <= trusted_for => Some(connection),
            Some(_) => {
                idle.clear();
                None
            }
            None => None,
        }
    }

    /// Keeps one that has just answered, with nothing left to be read from it.
    pub(super) fn keep(&self, connection: PoolConnection<Postgres>) {
        let mut idle = self.idle();
        if idle.len() < self.most {
            idle.push((connection, Instant::now()));
        }
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
