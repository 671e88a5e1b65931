//! Trying a policy before it counts.

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::view::PolicyView;
use crate::model::{DeadLetter, Disposition, FailureReason, RecoveryStatus, SourceTable};

use super::failure::PolicyFailure;
use super::{LoadError, Policy};

/// Has every member check its settings.
///
/// # Errors
///
/// The first member that refuses its settings, or that fails.
pub async fn settings(policy: &Policy, now: Timestamp) -> Result<(), LoadError> {
    let said = policy.session(now).trying().validate().await;
    let said = said.map_err(|failure| LoadError::Probe { asked: "when its settings were checked", failure })?;
    for (member, said) in policy.about().iter().zip(said) {
        said.map_err(|reason| LoadError::Settings { member: member.name.clone(), reason })?;
    }
    Ok(())
}

/// One entry of each named reason, and one of a reason without a name.
#[must_use]
pub fn sample_entries(now: Timestamp) -> Vec<PolicyView> {
    let reasons = FailureReason::named().chain([FailureReason(-1)]);
    reasons.zip(0_u128..).map(|(reason, number)| sample(reason, number, now)).collect()
}

/// Asks about the sample entries; returns the most bytes of memory it took.
///
/// # Errors
///
/// The first failure.
pub async fn samples(policy: &Policy, now: Timestamp) -> Result<usize, PolicyFailure> {
    let mut session = policy.session(now).trying();
    session.ask(sample_entries(now)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(session.peak_memory_bytes())
}

/// An entry as tables hold them: every other one has a stream, and has been tried once before.
fn sample(reason: FailureReason, number: u128, now: Timestamp) -> PolicyView {
    let id = |kind: u128| Uuid::from_u128((0x0190_0000_0000_7000_8000 << 48) | (kind << 32) | number);
    let tried = number % 2 == 1;
    PolicyView::of(&DeadLetter {
        dead_letter_id: id(1),
        source_table: SourceTable::Outbox,
        source_id: id(2),
        stream_id: tried.then(|| id(3)),
        message_type: "SampleMessage".to_owned(),
        destination: Some("sample".to_owned()),
        perspective_name: None,
        metadata: "{}".to_owned(),
        failure_reason: reason,
        error_text: Some("a sample, made by the host to try this policy".to_owned()),
        attempts_when_dlq: 5,
        dead_lettered_at: now,
        dead_lettered_by: None,
        recovery_status: RecoveryStatus::Pending,
        recovery_attempts: i32::from(tried),
        last_recovery_at: tried.then_some(now),
        next_recovery_at: None,
        recovered_at: None,
        generation: "sample".to_owned(),
        retried_on_generations: Vec::new(),
        operator_disposition: Disposition::None,
        operator_notes: None,
        operator_actor: None,
        error_fingerprint: None,
        error_fingerprint_version: None,
        source_created_at: Some(now),
        source_position: None,
        incarnation: 1,
        replay_credit: None,
        replay_credit_at: None,
        deferral: None,
        policy_errors: 0,
        policy_error_digest: None,
        status_note: None,
    })
}
