//! The signals that the program listens to.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at the first SIGTERM or SIGINT. When signals cannot be caught, never: the system's own handling ends the
/// program then.
pub async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => tracing::info!("told to stop by SIGTERM"),
        _ = interrupt.recv() => tracing::info!("told to stop by SIGINT"),
    }
}

/// SIGHUP, which asks for a reload. From its making on, the signal no longer ends the program.
pub struct Hangups(Option<Signal>);

impl Hangups {
    /// Listens from now on.
    pub fn new() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

    /// The next one; never, when signals cannot be caught.
    pub async fn next(&mut self) {
        let heard = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if heard.is_none() {
            std::future::pending().await
        }
    }
}
