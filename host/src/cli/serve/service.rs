//! What the service manager is told, by the notification protocol of systemd. Without one that asks, nothing is said.

use sd_notify::NotifyState;

/// The program serves, from the start or again after a reload.
pub fn ready(status: &str) {
    say(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The program reads its configuration and its policies again.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        say(&[NotifyState::Reloading, now]);
    }
}

/// The program ends.
pub fn stopping() {
    say(&[NotifyState::Stopping]);
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
        say(&[NotifyState::Watchdog]);
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
