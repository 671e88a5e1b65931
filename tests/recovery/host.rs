//! A host that scans when the test says so.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use reprieve::model::SourceTable;
use reprieve::policy::{EngineOptions, LivePolicy, MemberSource, Origin, Policy, PolicyEngine};
use reprieve::recovery::{Generation, RecoveryOptions, ScanCounts, Scanner};
use reprieve::telemetry::{Health, Metrics};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::rows::with;
use crate::harness::{Backend, at, id, outbox_row, source};

/// The engine of this test process.
fn engine() -> &'static PolicyEngine {
    static ENGINE: LazyLock<PolicyEngine> = LazyLock::new(|| PolicyEngine::new(EngineOptions::default()).unwrap());
    &ENGINE
}

/// The default matrix, compiled once per test process.
pub async fn default_matrix() -> Policy {
    static POLICY: OnceCell<Policy> = OnceCell::const_new();
    let load = async || {
        let member = MemberSource::new(Origin::Builtin);
        engine().load(vec![member]).await.unwrap()
    };
    POLICY.get_or_init(load).await.clone()
}

/// A component as a policy with the name `guest`.
pub async fn policy_of(component: &[u8]) -> Policy {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guest.wasm");
    std::fs::write(&file, component).unwrap();
    engine().load(vec![MemberSource::new(Origin::File(file))]).await.unwrap()
}

/// A host of generation `g1` with the default matrix and one lane.
pub async fn host(store: &Backend) -> Scanner {
    Scanner {
        store: store.shared(),
        policy: LivePolicy::new(default_matrix().await),
        fallback: None,
        options: Arc::new(RecoveryOptions { lanes: 1, ..RecoveryOptions::default() }),
        generation: Generation::fixed(Some("g1".to_owned())),
        instance: Uuid::now_v7(),
        metrics: Metrics::new(),
        health: Health::default(),
        now: None,
        shutdown: CancellationToken::new(),
        abandoned: Arc::default(),
        deferrals: Arc::default(),
        pace: Arc::default(),
        rota: Arc::default(),
    }
}

/// What a test says to a host.
pub trait Told {
    /// Everything that is due at this moment, worked off.
    async fn scans_at(&self, now: Timestamp) -> ScanCounts;
    /// The sweep for a generation at this moment, which the host works for from then on.
    async fn deploys(&mut self, generation: &str, now: Timestamp) -> u64;
}

impl Told for Scanner {
    async fn scans_at(&self, now: Timestamp) -> ScanCounts {
        Scanner { now: Some(now), ..self.clone() }.until_idle().await.unwrap()
    }

    async fn deploys(&mut self, generation: &str, now: Timestamp) -> u64 {
        self.generation = Generation::fixed(Some(generation.to_owned()));
        Scanner { now: Some(now), ..self.clone() }.sweep().await.unwrap().unwrap()
    }
}

/// Lets the `n`-th outbox message die, for the time that `death` counts, with a reason; the new dead letter's id.
pub async fn dies(store: &Backend, n: u64, death: u64, reason: i32, seconds: i64) -> Uuid {
    if store.source_row("wh_outbox", source(n)).await.is_none() {
        store.insert("wh_outbox", &with(outbox_row(n), json!({ "stream_id": null }))).await;
    }
    let dead_letter_id = id(n * 1000 + death);
    let request = reprieve::store::Move {
        dead_letter_id,
        failure_reason: reprieve::model::FailureReason(reason),
        now: Some(at(seconds)),
        ..crate::harness::rows::moving(SourceTable::Outbox, n)
    };
    store.move_to_dead_letters(&request).await.unwrap().expect("the row was there");
    dead_letter_id
}

/// Whether the `n`-th message is back in its outbox.
pub async fn is_back(store: &Backend, n: u64) -> bool {
    store.source_row("wh_outbox", source(n)).await.is_some()
}
