//! A host among the service's instances: registered while it recovers, gone when it ends.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::scan::Scanner;
use crate::store::{HostBeat, StoreError};

/// How often a host says that it is alive. Two of its heartbeats may be missed before it loses its place, nine before the
/// others remove it.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Where a host runs.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    /// The machine.
    pub host_name: String,
    /// The process on it.
    pub process_id: u32,
}

impl Scanner {
    /// Runs `work` to its end and keeps the host registered meanwhile. What is wrong with registering is told, once until
    /// it goes well again, and keeps nothing from being recovered: batches are fenced by their leases.
    pub async fn registered<T>(&self, whereabouts: &Whereabouts, work: impl Future<Output = T>) -> T {
        let done = tokio::select! {
            done = work => done,
            never = self.keep_registered(whereabouts) => match never {},
        };
        if let Err(error) = self.store.remove_host(self.instance).await {
            tracing::debug!(%error, "this host stays registered until the others count it as dead");
        }
        done
    }

    async fn keep_registered(&self, whereabouts: &Whereabouts) -> Infallible {
        let mut ticks = interval(HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = false;
        loop {
            ticks.tick().await;
            match self.beat(whereabouts).await {
                Ok(()) => told = false,
                Err(error) if told => tracing::debug!(%error, "this host is still not registered"),
                Err(error) => {
                    told = true;
                    tracing::warn!(%error, "this host could not be registered in wh_service_instances; recovering all the same");
                }
            }
        }
    }

    /// One sign of life; takes note of how many hosts there are.
    ///
    /// # Errors
    ///
    /// The store did not do its part.
    pub async fn beat(&self, whereabouts: &Whereabouts) -> Result<(), StoreError> {
        let metadata = json!({ "version": env!("CARGO_PKG_VERSION"), "generation": self.generation.tag() }).to_string();
        let beat = HostBeat {
            instance_id: self.instance,
            host_name: &whereabouts.host_name,
            process_id: whereabouts.process_id,
            metadata: &metadata,
            now: self.now,
        };
        self.rota.take(self.store.register_host(&beat).await?);
        Ok(())
    }
}
