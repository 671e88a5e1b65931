//! What wakes an idle worker.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::scan::{ScanError, Scanner};
use crate::store::{Due, Signal};
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
    attentive_since: Option<Instant>,
    /// Whether a lost subscription has come to stand again.
    restored: bool,
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

    /// Resolves once for a lost subscription that stands again, also where that was noticed before: whatever cut it off
    /// is over. Never without one.
    pub(super) async fn restored(&mut self, scanner: &Scanner) {
        while !std::mem::take(&mut self.restored) {
            let signal = self.next().await;
            self.take(signal, scanner);
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
                self.restored = true;
            }
            Signal::Ready => {}
        }
        self.attentive_since = Some(Instant::now());
        true
    }

    /// How long ago a signal came, while the store is looked at closely for it.
    fn attentive(&self) -> Option<Duration> {
        self.attentive_since.map(|since| since.elapsed()).filter(|since| *since < ATTENTIVE_FOR)
    }
}

impl Scanner {
    /// Waits until there is reason for a scan: a signal, a row or a lease that falls due, a row found by looking, or
    /// the backstop at `backstop`.
    ///
    /// What wakes every host of the store, a signal or a row that falls due, is scanned for by the first of them. The
    /// others wait for their turn and look then whether it left something.
    pub(super) async fn until_woken(&self, signals: &mut Signals, backstop: Instant) -> Result<(), ScanError> {
        if signals.coalesce(self) && self.rota.wait().is_zero() {
            return Ok(());
        }
        loop {
            let due = self.store.due(&self.generation.tag_or_unversioned(), self.now).await?;
            if due.due_now || Instant::now() >= backstop {
                return Ok(());
            }
            let turn = self.rota.wait();
            let (wait, falls_due_first) = self.rest(signals, &due, turn);
            let first = turn.is_zero();
            tokio::select! {
                signal = signals.next() => if signals.take(signal, self) {
                    if first {
                        return Ok(());
                    }
                    sleep(turn).await;
                    // The look to come covers those that came meanwhile, too.
                    signals.coalesce(self);
                },
                () = sleep_until((Instant::now() + wait).min(backstop)) => if falls_due_first && first { return Ok(()) },
            }
        }
    }

    /// How long to wait for a signal before the next look, and whether that is since something falls due then.
    fn rest(&self, signals: &Signals, due: &Due, turn: Duration) -> (Duration, bool) {
        let probe = self.options.probe_interval;
        let attentive = signals.attentive().map(|since| self.rota.next_look(ATTENTIVE_INTERVAL, since));
        let look = attentive.map_or(probe, |look| look.min(probe));
        let falls_due = due.next_at.map(|at| Duration::try_from(at.duration_since(due.now)).unwrap_or_default());
        let wait = falls_due.map_or(look, |wait| look.min(wait + turn)).max(SHORTEST_SLEEP);
        (wait, falls_due.is_some_and(|wait| wait <= look))
    }
}
