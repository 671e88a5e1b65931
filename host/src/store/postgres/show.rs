//! One row with everything known about it.

use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PostgresStore;
use super::operator::{live_ids, shown};
use super::rows::{entry_columns, get, numbered, time};
use crate::store::operator::{Incarnation, RecordedDecision};
use crate::store::{Result, Whole};

pub(crate) const SHOW: &str = concat!(
    "select ",
    entry_columns!(),
    ", dead_letter_id in ",
    live_ids!(),
    " as live, envelope::text as envelope_text, source_row::text as source_row_text \
    from wh_dead_letters where dead_letter_id = $1"
);

pub(crate) const INCARNATIONS: &str = "\
    select o.dead_letter_id, o.incarnation, o.dead_lettered_at, o.generation, o.recovery_status \
    from wh_dead_letters d \
    join wh_dead_letters o on o.source_table = d.source_table and o.source_id = d.source_id \
        and o.dead_letter_id <> d.dead_letter_id \
    where d.dead_letter_id = $1 \
    order by o.incarnation, o.dead_lettered_at, o.dead_letter_id";

pub(crate) const DECISIONS: &str = "\
    select decision_id, decided_at, decision, policy_name, policy_digest, attempt, rule::text as rule, \
        inputs::text as inputs, note \
    from wh_dead_letter_decisions \
    where dead_letter_id = $1 \
    order by decided_at, decision_id";

impl PostgresStore {
    pub(super) async fn show_row(&self, id: Uuid) -> Result<Option<Whole>> {
        let action = "show a dead letter";
        let rows = self.rows(action, self.query(SHOW).bind(id)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let incarnations = self.rows(action, self.query(INCARNATIONS).bind(id)).await?;
        let decisions = self.rows(action, self.query(DECISIONS).bind(id)).await?;
        Ok(Some(Whole {
            row: shown(row),
            envelope: get(row, "envelope_text").unwrap_or_default(),
            source_row: get(row, "source_row_text").unwrap_or(None),
            // What cannot be read of the history is left out: the row itself is what was asked for.
            incarnations: incarnations.iter().filter_map(|row| incarnation(row).ok()).collect(),
            decisions: decisions.iter().filter_map(|row| decision(row).ok()).collect(),
        }))
    }
}

fn incarnation(row: &PgRow) -> std::result::Result<Incarnation, String> {
    Ok(Incarnation {
        dead_letter_id: get(row, "dead_letter_id")?,
        incarnation: get(row, "incarnation")?,
        dead_lettered_at: time(row, "dead_lettered_at")?,
        generation: get(row, "generation")?,
        recovery_status: numbered(row, "recovery_status")?,
    })
}

/// Reads a recorded decision.
pub(super) fn decision(row: &PgRow) -> std::result::Result<RecordedDecision, String> {
    Ok(RecordedDecision {
        decision_id: get(row, "decision_id")?,
        decided_at: time(row, "decided_at")?,
        decision: get(row, "decision")?,
        policy_name: get(row, "policy_name")?,
        policy_digest: get(row, "policy_digest")?,
        attempt: get(row, "attempt")?,
        rule: get(row, "rule")?,
        inputs: get(row, "inputs")?,
        note: get(row, "note")?,
    })
}
