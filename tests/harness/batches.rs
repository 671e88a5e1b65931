//! A host's steps, in short.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::decision::Standing;
use reprieve::model::{DeadLetter, Deferral, RecoveryStatus};
use reprieve::store::{
    Attempt, Begin, Begun, Claim, ClaimRequest, Cursor, DecisionRecord, Ending, Ruling, Seen, Settle, Settled, Store,
    StreamTerms,
};
use uuid::Uuid;

use super::clock::instance;

/// How long the batches of tests last.
pub const LEASE: Duration = Duration::from_secs(60);

/// A batch and what is in it.
pub struct Claimed {
    /// Its id.
    pub batch_id: Uuid,
    /// What was claimed.
    pub claim: Claim,
}

impl Claimed {
    /// The ids of its rows, in their order.
    pub fn ids(&self) -> Vec<Uuid> {
        self.claim.rows.iter().map(|row| row.entry.dead_letter_id).collect()
    }

    /// Its rows.
    pub fn entries(&self) -> Vec<DeadLetter> {
        self.claim.rows.iter().map(|row| row.entry.clone()).collect()
    }
}

/// Claims from the front of the queue for a host of generation `g1`.
pub async fn claim(store: &dyn Store, max: u32, now: Timestamp) -> Claimed {
    claim_after(store, "g1", max, None, now).await
}

/// Claims whole streams, going on after a row.
pub async fn claim_streams(store: &dyn Store, max: u32, after: Option<Cursor>, now: Timestamp) -> Claimed {
    claimed(store, ClaimRequest { whole_streams: true, ..claiming("g1", max, after, now) }).await
}

/// Claims for a host of a generation, going on after a row.
pub async fn claim_after(
    store: &dyn Store,
    generation: &str,
    max: u32,
    after: Option<Cursor>,
    now: Timestamp,
) -> Claimed {
    claimed(store, claiming(generation, max, after, now)).await
}

fn claiming(generation: &str, max: u32, after: Option<Cursor>, now: Timestamp) -> ClaimRequest<'_> {
    let (batch_id, owner, now) = (Uuid::now_v7(), instance(1), Some(now));
    ClaimRequest { batch_id, owner, generation, max, after, whole_streams: false, lease: LEASE, now }
}

async fn claimed(store: &dyn Store, request: ClaimRequest<'_>) -> Claimed {
    Claimed { batch_id: request.batch_id, claim: store.claim(&request).await.expect("claim") }
}

/// Carries out the decisions about a batch.
pub async fn begin(store: &dyn Store, batch_id: Uuid, recover: &[Uuid], endings: &[Ending], now: Timestamp) -> Begun {
    store
        .begin(&Begin { batch_id, recover, endings, streams: StreamTerms::default(), now: Some(now) })
        .await
        .expect("begin")
}

/// Makes the attempts of a batch.
pub async fn settle(store: &dyn Store, batch_id: Uuid, attempts: &[Attempt], now: Timestamp) -> Vec<Settled> {
    store
        .settle(&Settle { batch_id, attempts, streams: StreamTerms::default(), refusal: None, now: Some(now) })
        .await
        .expect("settle")
}

/// Claims, begins and settles everything that is due, at one moment; failed rows wait a minute.
pub async fn recover_all(store: &dyn Store, now: Timestamp) -> Vec<Settled> {
    let claimed = claim(store, 200, now).await;
    let begun = begin(store, claimed.batch_id, &claimed.ids(), &[], now).await;
    assert_eq!(begun, Begun::Done { ended: vec![] });
    let attempts: Vec<Attempt> = claimed.entries().iter().map(|entry| attempt(entry, waiting(now, 60))).collect();
    settle(store, claimed.batch_id, &attempts, now).await
}

/// An attempt on a row, paid by the credit that it has.
pub fn attempt(entry: &DeadLetter, on_failure: Standing) -> Attempt {
    Attempt {
        dead_letter_id: entry.dead_letter_id,
        source_table: entry.source_table,
        in_order: false,
        credit: entry.replay_credit.clone(),
        on_failure,
        record: record(),
    }
}

/// The end of a row without an attempt.
pub fn ending(entry: &DeadLetter, standing: Standing, note: Option<&str>) -> Ending {
    Ending {
        dead_letter_id: entry.dead_letter_id,
        seen: Seen::of(entry),
        standing,
        note: note.map(str::to_owned),
        policy_errors: 0,
        policy_error_digest: None,
        decision: "hold",
        record: Some(record()),
    }
}

/// A decision by the policy `Careful`.
pub fn record() -> DecisionRecord {
    let rule = r#"{"max_recovery_attempts": 3}"#.to_owned();
    let ruling = Ruling { policy_name: "Careful".to_owned(), policy_digest: "ab".repeat(32), rule };
    DecisionRecord { ruling: Arc::new(ruling), attempt: 1, inputs: r#"{"failure_reason": "Throttled"}"#.to_owned() }
}

/// Pending again so many seconds later, after a failure.
pub fn waiting(now: Timestamp, seconds: i64) -> Standing {
    Standing {
        status: RecoveryStatus::Pending,
        next_recovery_at: Some(now + jiff::SignedDuration::from_secs(seconds)),
        deferral: Some(Deferral::Failure),
    }
}

/// Held or given up.
pub fn ended(status: RecoveryStatus) -> Standing {
    Standing { status, next_recovery_at: None, deferral: None }
}
