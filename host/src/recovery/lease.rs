//! A batch's lease, renewed while something goes on.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use uuid::Uuid;

use super::scan::Scanner;

/// The lease of one batch.
pub(super) struct Lease<'a> {
    pub scanner: &'a Scanner,
    pub batch_id: Uuid,
}

impl Lease<'_> {
    /// Renews the lease until it is lost.
    pub(super) async fn lost(&self) {
        let lease = self.scanner.options.lease;
        let every = (lease / 3).max(Duration::from_secs(1));
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.scanner.store.renew(self.batch_id, lease, self.scanner.now).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => tracing::warn!(batch_id = %self.batch_id, %error, "a lease was not renewed"),
            }
        }
    }

    /// Runs `work` to its end and renews the lease meanwhile. A lost lease does not stop it: the store refuses to
    /// settle a batch that is gone, and a settle that has just committed looks the same from here.
    pub(super) async fn kept<T>(&self, work: impl Future<Output = T>) -> T {
        let renewing = async {
            self.lost().await;
            pending::<Infallible>().await
        };
        tokio::select! {
            done = work => done,
            never = renewing => match never {},
        }
    }
}
