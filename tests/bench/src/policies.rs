//! The time of the three questions about one entry: as a component, and as the same matrix in Rego.

use std::hint::black_box;
use std::time::Instant;

use jiff::Timestamp;
use reprieve::model::json::parse_entry;
use reprieve::model::view::PolicyView;
use reprieve::policy::{EngineOptions, MemberSource, Origin, Policy, PolicyEngine};
use serde_json::json;

use crate::rego::Matrix;
use crate::samples::Samples;

const RUNS: usize = 15;
const ENTRIES: usize = 2_000;
const BATCH: usize = 200;

/// Prints the table.
pub async fn run() {
    let engine = PolicyEngine::new(EngineOptions::default()).unwrap();
    let member = MemberSource::new(Origin::Builtin);
    let policy = engine.load(vec![member]).await.unwrap();
    let views = views();
    let [mut fresh, mut reused, mut rego, mut hand_over] = std::array::from_fn(|_| Samples::default());
    let matrix = Matrix::compile();
    for _ in 0..RUNS {
        fresh.add(fresh_instances(&policy, &views).await);
        reused.add(one_instance(&policy, &views).await);
        rego.add(matrix.time(&views));
        hand_over.add(nothing_asked(&policy).await);
    }
    println!("\n## policies: three calls for one entry, in µs: median (least to most) of {RUNS} runs of {ENTRIES}\n");
    println!("| | µs | beside Rego |\n|---|---|---|");
    println!(
        "| default matrix, fresh instance for each entry | {fresh} | {:.1} times as fast |",
        rego.median() / fresh.median()
    );
    println!(
        "| default matrix, instance reused in batches of {BATCH} | {reused} | {:.1} times as fast |",
        rego.median() / reused.median()
    );
    println!("| the same matrix in Rego, compiled once | {rego} | 1 |");
    println!(
        "| handing one batch over to the policies' thread and back, part of the first two rows once in {BATCH} | {hand_over} | |"
    );
}

fn views() -> Vec<PolicyView> {
    let reasons = ["Throttled", "TransportException", "MaxAttemptsExceeded", "ValidationError", "Unknown"];
    (0..ENTRIES)
        .map(|n| {
            let entry = json!({
                "failure_reason": reasons[n % reasons.len()],
                "message_type": "Shop.Orders.OrderPlaced, Shop.Contracts",
                "destination": "orders",
                "stream_id": "0190a000-0000-7000-a000-000000000001",
                "error_text": "System.TimeoutException: the broker did not answer\n   at Shop.Orders.Bus.Send(Message)",
                "metadata": {"tenant": "acme", "correlation_id": "0190a000-0000-7000-a000-000000000002"},
            });
            PolicyView::of(&parse_entry(&entry.to_string(), Timestamp::UNIX_EPOCH).unwrap())
        })
        .collect()
}

async fn fresh_instances(policy: &Policy, views: &[PolicyView]) -> f64 {
    let batches: Vec<Vec<PolicyView>> = views.chunks(BATCH).map(<[PolicyView]>::to_vec).collect();
    let mut session = policy.session(Timestamp::UNIX_EPOCH).isolated();
    let started = Instant::now();
    for batch in batches {
        let answers = session.ask(batch).await;
        assert!(black_box(answers).iter().all(Result::is_ok));
    }
    each(started, views.len())
}

async fn nothing_asked(policy: &Policy) -> f64 {
    let started = Instant::now();
    for _ in 0..ENTRIES {
        black_box(policy.session(Timestamp::UNIX_EPOCH).ask(Vec::new()).await);
    }
    each(started, ENTRIES)
}

async fn one_instance(policy: &Policy, views: &[PolicyView]) -> f64 {
    let batches: Vec<Vec<PolicyView>> = views.chunks(BATCH).map(<[PolicyView]>::to_vec).collect();
    let mut session = policy.session(Timestamp::UNIX_EPOCH);
    let started = Instant::now();
    for batch in batches {
        let answers = session.ask(batch).await;
        assert!(black_box(answers).iter().all(Result::is_ok));
    }
    each(started, views.len())
}

/// The time of one of so many entries, in µs.
#[allow(clippy::cast_precision_loss, reason = "a few thousand entries")]
pub fn each(started: Instant, entries: usize) -> f64 {
    started.elapsed().as_secs_f64() * 1e6 / entries as f64
}
