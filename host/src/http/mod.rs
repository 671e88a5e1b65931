//! The HTTP endpoints: `/metrics`, `/healthz` and `/readyz`. None of them shows anything of a message.

mod gauges;
mod ready;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::store::SharedStore;
use crate::telemetry::{Health, Metrics};
use gauges::Refresh;

/// How long open requests may take to end once the server is told to stop.
const GRACE: Duration = Duration::from_secs(2);
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the endpoints read.
#[derive(Clone)]
pub struct HttpState {
    metrics: Metrics,
    health: Health,
    store: SharedStore,
    refresh: Arc<Refresh>,
}

impl HttpState {
    /// Endpoints over these.
    #[must_use]
    pub fn new(metrics: Metrics, health: Health, store: SharedStore) -> Self {
        Self { metrics, health, store, refresh: Arc::default() }
    }
}

/// Serves the endpoints on a bound listener until `shutdown` is cancelled, then gives open requests two seconds.
///
/// # Errors
///
/// When the listener fails for good.
pub async fn serve(listener: TcpListener, state: HttpState, shutdown: CancellationToken) -> std::io::Result<()> {
    let stop = shutdown.clone();
    let server = axum::serve(listener, router(state)).with_graceful_shutdown(async move { stop.cancelled().await });
    tokio::select! {
        ended = server.into_future() => ended,
        () = grace_over(shutdown) => Ok(()),
    }
}

async fn grace_over(shutdown: CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

fn router(state: HttpState) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready::readyz))
        .route("/metrics", get(metrics))
        .with_state(state)
}

async fn metrics(State(state): State<HttpState>) -> Response {
    gauges::refresh(&state).await;
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], state.metrics.encode()).into_response()
}
