//! `/readyz`: whether this host can do its work, and what it works with.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

use super::HttpState;
use crate::telemetry::{ListenerState, LoadedPolicy, Rejected, Report, Totals};

/// How long the store may take to answer before it counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(2);

/// How the host is doing, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    /// It can do its work.
    Ready,
    /// The policy fails on everything, so that nothing is decided until it is replaced; the rest works.
    PolicyFailing,
    /// The store cannot be reached, or no policy is loaded.
    Unavailable,
}

impl Status {
    fn of(store_answers: bool, report: &Report) -> Self {
        if !store_answers || report.policies.is_empty() {
            Self::Unavailable
        } else if report.policy_fault.is_some() {
            Self::PolicyFailing
        } else {
            Self::Ready
        }
    }

    const fn code(self) -> StatusCode {
        match self {
            // A restart would lose what still works and would not mend the policy.
            Self::Ready | Self::PolicyFailing => StatusCode::OK,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The document at `/readyz`.
#[derive(Debug, Serialize)]
pub(super) struct Readiness {
    status: Status,
    store: &'static str,
    listener: ListenerState,
    last_scan: Option<Timestamp>,
    policies: Vec<LoadedPolicy>,
    rejected: Option<Rejected>,
    totals: Totals,
}

/// 200 when the store answers and a policy is loaded, also one that fails on everything; else 503. The document is the
/// same.
pub(super) async fn readyz(State(state): State<HttpState>) -> (StatusCode, Json<Readiness>) {
    let store_answers = matches!(tokio::time::timeout(PATIENCE, state.store.ping()).await, Ok(Ok(())));
    let report = state.health.report();
    let status = Status::of(store_answers, &report);
    let readiness = Readiness {
        status,
        store: if store_answers { "ok" } else { "unreachable" },
        listener: report.listener,
        last_scan: report.last_scan,
        policies: report.policies,
        rejected: report.rejected,
        totals: state.metrics.totals(),
    };
    (status.code(), Json(readiness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Health;

    fn loaded() -> Health {
        let health = Health::default();
        let (name, digest, sha256, source) = ("p".into(), "d".into(), "s".into(), "p.wasm".into());
        let policy = LoadedPolicy { name, digest, since: Timestamp::UNIX_EPOCH, sha256, source };
        health.policies(vec![policy]);
        health
    }

    #[test]
    fn a_policy_that_fails_on_everything_is_told_and_the_host_stays_ready_for_the_next_one() {
        let health = loaded();
        health.policy_failed(Timestamp::UNIX_EPOCH, "trap");
        let status = Status::of(true, &health.report());
        assert_eq!((status, status.code()), (Status::PolicyFailing, StatusCode::OK));
        assert_eq!(serde_json::json!(status), "policy-failing");
        health.scanned(Timestamp::UNIX_EPOCH);
        assert_eq!(Status::of(true, &health.report()), Status::Ready);
    }

    #[test]
    fn without_store_or_policy_the_host_is_unavailable() {
        let status = Status::of(false, &loaded().report());
        assert_eq!((status, status.code()), (Status::Unavailable, StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(Status::of(true, &Health::default().report()), Status::Unavailable);
    }
}
