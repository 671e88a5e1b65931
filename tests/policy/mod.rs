//! Policies through the engine: the embedded matrix, settings, chains, hostile guests and files that are no policy.

mod chain;
pub mod example;
pub mod guests;
mod hostile;
mod large_guests;
mod limits;
mod matrix;
pub mod noisy_guests;
mod purity;
mod refused;
mod seen;
mod settings;

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::json::parse_entry;
use reprieve::model::view::PolicyView;
use reprieve::model::{Answers, DeadLetter, FailureReason};
use reprieve::policy::{
    EngineOptions, Limits, LoadError, MemberSource, Origin, Policy, PolicyEngine, PolicyFailure, SettingsSource,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// The component that the host embeds.
pub const DEFAULT_MATRIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/default-matrix.wasm"));

/// Small enough for hostile guests to be stopped soon, large enough for a busy machine not to stop others.
fn limits() -> Limits {
    Limits {
        call_time: Duration::from_millis(300),
        start_time: Duration::from_millis(600),
        memory_bytes: 4 << 20,
        ..Limits::default()
    }
}

static ENGINE: LazyLock<PolicyEngine> =
    LazyLock::new(|| PolicyEngine::new(EngineOptions { limits: limits(), cache_dir: None, threads: 2 }).unwrap());

/// The time of every scan here.
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn builtin() -> MemberSource {
    MemberSource::new(Origin::Builtin)
}

fn with_settings(settings: Value) -> MemberSource {
    MemberSource { settings: SettingsSource::Given(settings), ..builtin() }
}

/// Component files that last as long as the test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn member(&self, name: &str, component: impl AsRef<[u8]>) -> MemberSource {
        let path = self.0.path().join(format!("{name}.wasm"));
        std::fs::write(&path, component).unwrap();
        MemberSource::new(Origin::File(path))
    }
}

async fn load_bytes(component: impl AsRef<[u8]>) -> Result<Policy, LoadError> {
    let files = Files::new();
    ENGINE.load(vec![files.member("guest", component)]).await
}

/// The message with its causes, as a person sees it.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

async fn refusal(component: impl AsRef<[u8]>) -> String {
    match load_bytes(component).await {
        Ok(policy) => panic!("{} was accepted", policy.name()),
        Err(error) => words(&error),
    }
}

fn entry(reason: FailureReason) -> DeadLetter {
    let id = Uuid::now_v7();
    let given = json!({
        "dead_letter_id": id, "source_id": id, "failure_reason": reason.0, "message_type": "OrderPlaced",
        "attempts_when_dlq": 10, "generation": "v1", "retried_on_generations": ["v0"],
    });
    DeadLetter { source_created_at: None, ..parse_entry(&given.to_string(), now()).unwrap() }
}

/// Entries of these message types; guests misbehave on those that start with an X.
fn of_types(types: &[&str]) -> Vec<PolicyView> {
    let named = |name: &&str| DeadLetter { message_type: (*name).to_owned(), ..entry(FailureReason::UNKNOWN) };
    types.iter().map(|name| PolicyView::of(&named(name))).collect()
}

async fn ask_one(policy: &Policy, entry: &DeadLetter) -> Result<Answers, PolicyFailure> {
    policy.session(now()).ask(vec![PolicyView::of(entry)]).await.remove(0)
}
