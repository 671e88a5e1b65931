//! What wakes an idle worker.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::scan::{ScanError, Scanner};
use crate::store::Signal;
use crate::telemetry::ListenerState;

/// After a signal, the store is looked at this often: the row that it speaks of may be committed a moment later.
const ATTENTIVE_INTERVAL: Duration = Duration::from_millis(20);
/// For so long after a signal.
const ATTENTIVE_FOR: Duration = Duration::from_secs(1);
/// Never sleep shorter, so that a clock that lags does not make the loop spin.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The store's signals, with what they imply for how often to look.
#[derive(Default)]
pub(super) struct Signals {
    receiver: Option<mpsc::Receiver<Signal>>,
    attentive_until: Option<Instant>,
}

impl Signals {
    pub(super) fn receive_from(&mut self, receiver: mpsc::Receiver<Signal>) {
        self.receiver = Some(receiver);
    }

    pub(super) const fn subscribed(&self) -> bool {
        self.receiver.is_some()
    }

    /// Takes note of the signals that came meanwhile, for one look that covers them all; whether to scan on them.
    pub(super) fn coalesce(&mut self, scanner: &Scanner) -> bool {
        let mut ready = false;
        while let Some(signal) = self.receiver.as_mut().and_then(|receiver| receiver.try_recv().ok()) {
            ready |= self.take(signal, scanner);
        }
        ready
    }

    /// The next signal; never, when there is no subscription.
    async fn next(&mut self) -> Signal {
        match &mut self.receiver {
            Some(receiver) => match receiver.recv().await {
                Some(signal) => signal,
                None => {
                    self.receiver = None;
                    std::future::pending().await
                }
            },
            None => std::future::pending().await,
        }
    }

    /// Takes note of a signal; whether to scan on it.
    fn take(&mut self, signal: Signal, scanner: &Scanner) -> bool {
        match signal {
            Signal::Lost => {
                scanner.health.listener(ListenerState::Lost);
                tracing::warn!("the subscription to signals was lost; polling until it stands again");
                return false;
            }
            Signal::Restored => {
                scanner.health.listener(ListenerState::Listening);
                scanner.metrics.listener_reconnect();
                tracing::info!("the subscription to signals stands again");
            }
            Signal::Ready => {}
        }
        self.attentive_until = Some(Instant::now() + ATTENTIVE_FOR);
        true
    }

    fn attentive(&self) -> bool {
        self.attentive_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Scanner {
    /// Waits until there is reason for a scan: a signal, a row or a lease that falls due, a row found by looking, or
    /// the backstop at `backstop`.
    pub(super) async fn until_woken(&self, signals: &mut Signals, backstop: Instant) -> Result<(), ScanError> {
        if signals.coalesce(self) {
            return Ok(());
        }
        loop {
            let due = self.store.due(&self.generation.tag_or_unversioned(), self.now).await?;
            if due.due_now || Instant::now() >= backstop {
                return Ok(());
            }
            let look = if signals.attentive() { ATTENTIVE_INTERVAL } else { self.options.probe_interval };
            let falls_due = due.next_at.map(|at| Duration::try_from(at.duration_since(due.now)).unwrap_or_default());
            let falls_due_first = falls_due.is_some_and(|wait| wait <= look);
            let wait = falls_due.unwrap_or(look).min(look).max(SHORTEST_SLEEP);
            tokio::select! {
                signal = signals.next() => if signals.take(signal, self) { return Ok(()) },
                () = sleep_until((Instant::now() + wait).min(backstop)) => if falls_due_first { return Ok(()) },
            }
        }
    }
}
