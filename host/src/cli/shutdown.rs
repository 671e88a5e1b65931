//! The signals that end the program.

use tokio::signal::unix::{SignalKind, signal};

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
