//! Recording what was decided about a row, in the transaction that carries it out.

use uuid::Uuid;

use super::connect::Write;
use super::values::time_text;
use crate::store::{Attempt, DecisionRecord};

const INSERT: &str = "insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, \
    policy_name, policy_digest, attempt, rule, inputs, note) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const INSERT_REQUEST: &str = "insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, \
    attempt, rule, note) select ?1, d.dead_letter_id, ?2, ?3, d.recovery_attempts, \
    json_object('actor', d.operator_actor), d.operator_notes from wh_dead_letters d where d.dead_letter_id = ?4";
const INSERT_HOLD: &str = "insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, \
    attempt, note) select ?1, d.dead_letter_id, ?2, 'hold', d.recovery_attempts, d.status_note from wh_dead_letters d \
    where d.dead_letter_id = ?3";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("decisions::INSERT", INSERT),
    ("decisions::INSERT_HOLD", INSERT_HOLD),
    ("decisions::INSERT_REQUEST", INSERT_REQUEST),
];

/// Records a decision of the worker.
pub(super) async fn record(
    write: &mut Write<'_>,
    id: Uuid,
    decision: &'static str,
    record: &DecisionRecord,
    note: Option<String>,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT)
        .bind(Uuid::now_v7().to_string())
        .bind(id.to_string())
        .bind(time_text(write.now))
        .bind(decision)
        .bind(record.ruling.policy_name.clone())
        .bind(record.ruling.policy_digest.clone())
        .bind(record.attempt)
        .bind(record.ruling.rule.clone())
        .bind(record.inputs.clone())
        .bind(note)
        .execute(&mut write.conn)
        .await?;
    Ok(())
}

/// Records that a row is held, for what its status note says.
pub(super) async fn record_hold(write: &mut Write<'_>, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_HOLD)
        .bind(Uuid::now_v7().to_string())
        .bind(time_text(write.now))
        .bind(id.to_string())
        .execute(&mut write.conn)
        .await?;
    Ok(())
}

/// Records an attempt and its outcome.
pub(super) async fn record_attempt(
    write: &mut Write<'_>,
    attempt: &Attempt,
    outcome: String,
) -> Result<(), sqlx::Error> {
    record(write, attempt.dead_letter_id, "recover", &attempt.record, Some(outcome)).await
}

/// Records what a person, or an application by SQL, asked for, as it stands in the row.
pub(super) async fn record_request(write: &mut Write<'_>, id: &str, verb: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_REQUEST)
        .bind(Uuid::now_v7().to_string())
        .bind(time_text(write.now))
        .bind(verb)
        .bind(id.to_owned())
        .execute(&mut write.conn)
        .await?;
    Ok(())
}
