//! The signals that the program listens to.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, which end the program in good order. From its making on, they no longer end it at once.
pub struct Stops {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Stops {
    /// Listens from now on.
    pub fn new() -> Self {
        Self { terminate: signal(SignalKind::terminate()).ok(), interrupt: signal(SignalKind::interrupt()).ok() }
    }

    /// Resolves at the first one; never at one that cannot be caught: the system's own handling ends the program then.
    pub async fn told(&mut self) {
        tokio::select! {
            () = next(&mut self.terminate) => tracing::info!("told to stop by SIGTERM"),
            () = next(&mut self.interrupt) => tracing::info!("told to stop by SIGINT"),
        }
    }
}

/// SIGHUP, which asks for a reload. From its making on, the signal no longer ends the program.
pub struct Hangups(Option<Signal>);

impl Hangups {
    /// Listens from now on.
    pub fn new() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

    /// The next one; never, when it cannot be caught.
    pub async fn next(&mut self) {
        next(&mut self.0).await;
    }
}

async fn next(caught: &mut Option<Signal>) {
    let heard = match caught {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending().await
    }
}
