//! What the service manager is told, by the notification protocol of systemd. Without one that asks, nothing is said.
//!
//! It is told from a thread of its own, since a manager that does not listen blocks whoever speaks.

use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use sd_notify::NotifyState;

/// Messages that wait to be told; further ones are dropped.
const MOST_WAITING: usize = 16;

static TELLER: LazyLock<Option<SyncSender<Vec<NotifyState<'static>>>>> = LazyLock::new(|| {
    std::env::var_os("NOTIFY_SOCKET")?;
    let (sender, messages) = sync_channel(MOST_WAITING);
    let told = move || messages.iter().for_each(|states: Vec<NotifyState<'_>>| tell(&states));
    std::thread::Builder::new().name("service-manager".to_owned()).spawn(told).ok()?;
    Some(sender)
});

/// The program serves, from the start or again after a reload.
pub fn ready(status: &'static str) {
    say(vec![NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program reads its configuration and its policies again.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        say(vec![NotifyState::Reloading, now]);
    }
}

/// The program ends.
pub fn stopping() {
    say(vec![NotifyState::Stopping]);
}

/// Says that the program is alive, twice in each period that the service manager grants; never returns. It is polled
/// by the async runtime, which is what its silence would tell of: not a store that is away, nor a policy that fails.
pub async fn stay_alive() {
    let Some(period) = sd_notify::watchdog_enabled().filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    let mut beat = tokio::time::interval(period / 2);
    loop {
        beat.tick().await;
        say(vec![NotifyState::Watchdog]);
    }
}

fn say(states: Vec<NotifyState<'static>>) {
    if let Some(teller) = &*TELLER {
        // Nobody waits for a manager that does not listen.
        let _ = teller.try_send(states);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
