//! A dead letter whole, as JSON.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::model::DeadLetter;
use crate::model::json::write_columns;
use crate::store::Whole;
use crate::store::operator::{Incarnation, RecordedDecision};

/// JSON as it stands in the table, digit for digit; a text when it is no JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl<'a> Body<'a> {
    fn of(text: &'a str) -> Self {
        serde_json::from_str(text).map_or(Self::Text(text), Self::Json)
    }
}

/// What belongs to a row beside its columns.
#[derive(Serialize)]
struct Beside<'a> {
    waits_for: Option<Uuid>,
    envelope: Body<'a>,
    source_row: Option<Body<'a>>,
    incarnations: Vec<Other<'a>>,
    decisions: Vec<Decided<'a>>,
}

#[derive(Serialize)]
struct Other<'a> {
    dead_letter_id: Uuid,
    incarnation: i32,
    dead_lettered_at: Timestamp,
    generation: &'a str,
    recovery_status: &'static str,
}

#[derive(Serialize)]
struct Decided<'a> {
    decision_id: Uuid,
    decided_at: Timestamp,
    decision: &'a str,
    policy_name: Option<&'a str>,
    policy_digest: Option<&'a str>,
    attempt: Option<i32>,
    rule: Option<Body<'a>>,
    inputs: Option<Body<'a>>,
    note: Option<&'a str>,
}

/// The document of a row: its columns at the top level, as they are written everywhere, and beside them the rest, with
/// the earlier row of its stream that it waits for.
pub fn of(entry: &DeadLetter, whole: &Whole, waits_for: Option<Uuid>) -> serde_json::Result<String> {
    let mut document = "{".to_owned();
    write_columns(entry, &mut document);
    let beside = serde_json::to_string(&beside(whole, waits_for))?;
    document.push_str(&beside.replacen('{', ",", 1));
    Ok(document)
}

fn beside(whole: &Whole, waits_for: Option<Uuid>) -> Beside<'_> {
    Beside {
        waits_for,
        envelope: Body::of(&whole.envelope),
        source_row: whole.source_row.as_deref().map(Body::of),
        incarnations: whole.incarnations.iter().map(other).collect(),
        decisions: whole.decisions.iter().map(decided).collect(),
    }
}

fn other(incarnation: &Incarnation) -> Other<'_> {
    Other {
        dead_letter_id: incarnation.dead_letter_id,
        incarnation: incarnation.incarnation,
        dead_lettered_at: incarnation.dead_lettered_at,
        generation: &incarnation.generation,
        recovery_status: incarnation.recovery_status.name(),
    }
}

fn decided(decision: &RecordedDecision) -> Decided<'_> {
    Decided {
        decision_id: decision.decision_id,
        decided_at: decision.decided_at,
        decision: &decision.decision,
        policy_name: decision.policy_name.as_deref(),
        policy_digest: decision.policy_digest.as_deref(),
        attempt: decision.attempt,
        rule: decision.rule.as_deref().map(Body::of),
        inputs: decision.inputs.as_deref().map(Body::of),
        note: decision.note.as_deref(),
    }
}
