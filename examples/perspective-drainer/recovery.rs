//! The host that recovers dead letters, here inside the program; `reprieve serve` is the same as a process of its own.

use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use reprieve::policy::{EngineOptions, LivePolicy, MemberSource, Origin, PolicyEngine};
use reprieve::recovery::{Generation, RecoveryOptions, Scanner};
use reprieve::store::SharedStore;
use reprieve::telemetry::{Health, Metrics};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Sweeps for a new build and recovers what is due then; how many were swept and re-emitted.
pub async fn recover(store: &SharedStore, generation: &str, now: Timestamp) -> anyhow::Result<(u64, u64)> {
    let engine = PolicyEngine::new(EngineOptions::default())?;
    let policy = engine.load(vec![MemberSource::new(Origin::Builtin)]).await?;
    store.become_recovering_host().await?;
    let scanner = Scanner {
        store: store.clone(),
        policy: LivePolicy::new(policy),
        fallback: None,
        options: Arc::new(RecoveryOptions::default()),
        generation: Generation::fixed(Some(generation.to_owned())),
        instance: Uuid::now_v7(),
        metrics: Metrics::new(),
        health: Health::default(),
        now: Some(now),
        shutdown: CancellationToken::new(),
        abandoned: Arc::default(),
        deferrals: Arc::default(),
        pace: Arc::default(),
        rota: Arc::default(),
    };
    let swept = scanner.sweep().await?.context("a generation is set")?;
    Ok((swept, scanner.until_idle().await?.recovered))
}
