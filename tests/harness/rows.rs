//! Rows as applications leave them, and as an import brings them.

use reprieve::model::{FailureReason, SourceTable};
use reprieve::store::{Move, NewDeadLetter};
use serde_json::{Value, json, value::RawValue};

use super::clock::{at, id, instance, source, stream, time_text};

/// A message that was sent four times in vain; no column is left to its default.
pub fn outbox_row(n: u64) -> Value {
    json!({
        "message_id": source(n), "destination": "orders", "message_type": "OrderPlaced",
        "envelope_type": "Envelope/1", "event_data": {"order": n, "text": "Grüße 🚚", "sum": 12345678901234567_i64},
        "metadata": {"tenant": "acme", "hop": [1, 2]}, "scope": {"tenant": "acme"}, "stream_id": stream(n),
        "partition_number": 3, "is_event": true, "status": 7, "attempts": 4, "error": "boom",
        "instance_id": instance(9), "lease_expiry": time_text(at(-10)), "failure_reason": 2,
        "scheduled_for": time_text(at(-20)), "created_at": time_text(at(-3000)),
        "published_at": time_text(at(-2000)), "processed_at": time_text(at(-1000)),
    })
}

/// A message that was handled four times in vain.
pub fn inbox_row(n: u64) -> Value {
    json!({
        "message_id": source(n), "handler_name": "BillingHandler", "message_type": "InvoiceDue",
        "envelope_type": "Envelope/2", "event_data": {"invoice": n, "text": "請求書"}, "metadata": {"tenant": "blue"},
        "scope": {"user": "u1"}, "stream_id": stream(n), "partition_number": 5, "is_event": true, "status": 7,
        "attempts": 4, "error": "boom", "instance_id": instance(9), "lease_expiry": time_text(at(-10)),
        "failure_reason": 4, "scheduled_for": time_text(at(-20)), "processed_at": time_text(at(-1000)),
        "received_at": time_text(at(-3000)),
    })
}

/// An event that a perspective could not apply.
pub fn perspective_row(n: u64) -> Value {
    json!({
        "event_work_id": source(n), "stream_id": stream(n), "perspective_name": "orders-by-customer",
        "event_id": event(n), "instance_id": instance(9), "lease_expiry": time_text(at(-10)), "status": 7,
        "attempts": 11, "error": "boom", "failure_reason": 5, "partition_number": 7,
        "created_at": time_text(at(-3000)), "claimed_at": time_text(at(-40)), "processed_at": time_text(at(-30)),
        "scheduled_for": time_text(at(-20)),
    })
}

/// The event that [`perspective_row`] is about, at place `100 + n` of the store.
pub fn event_row(n: u64) -> Value {
    json!({
        "event_id": event(n), "stream_id": stream(n), "commit_sequence": 100 + n, "event_type": "OrderPlaced",
        "event_data": {"order": n}, "metadata": {}, "created_at": time_text(at(-4000)),
    })
}

/// The id of the `n`-th event.
pub fn event(n: u64) -> uuid::Uuid {
    uuid::Uuid::from_u128(source(n).as_u128() ^ (0x2800_u128 << 48))
}

/// A throttled outbox message that died `n` seconds after the beginning and is due. It was not moved by the store, so
/// it has no source row; nothing is in its source table.
pub fn dead_letter(n: u64) -> Value {
    json!({
        "dead_letter_id": id(n), "source_table": "wh_outbox", "source_id": source(n), "message_type": "OrderPlaced",
        "destination": "orders", "envelope": {"event_data": {"order": n}, "metadata": {"tenant": "acme"}},
        "metadata": {"tenant": "acme"}, "failure_reason": 8, "attempts_when_dlq": 3,
        "dead_lettered_at": time_text(at(n.try_into().unwrap())), "generation": "g1",
    })
}

/// A row with some columns of its own.
pub fn with(mut row: Value, changes: Value) -> Value {
    if let (Value::Object(row), Value::Object(changes)) = (&mut row, changes) {
        row.extend(changes);
    }
    row
}

/// The move of the `n`-th message of a table, ten seconds after the beginning, under generation `g1`.
pub fn moving(table: SourceTable, n: u64) -> Move {
    Move {
        dead_letter_id: id(n),
        source_table: table,
        source_id: source(n),
        failure_reason: FailureReason(8),
        error_text: Some("System.TimeoutException: no answer".to_owned()),
        instance_id: Some(instance(1)),
        generation: "g1".to_owned(),
        now: Some(at(10)),
    }
}

/// The `n`-th dead letter of an import, with only the columns that it must have.
pub fn import_line(n: u64) -> NewDeadLetter {
    NewDeadLetter {
        dead_letter_id: id(n),
        source_table: SourceTable::Outbox,
        source_id: source(n),
        stream_id: None,
        message_type: "OrderPlaced".to_owned(),
        destination: Some("orders".to_owned()),
        perspective_name: None,
        envelope: raw_json(r#"{"event_data":{},"metadata":{}}"#),
        metadata: raw_json("{}"),
        failure_reason: FailureReason(8),
        error_text: None,
        attempts_when_dlq: 0,
        dead_lettered_at: Some(at(n.try_into().unwrap())),
        dead_lettered_by: None,
        recovery_status: None,
        recovery_attempts: None,
        last_recovery_at: None,
        next_recovery_at: None,
        recovered_at: None,
        generation: "g1".to_owned(),
        retried_on_generations: None,
        operator_disposition: None,
        operator_notes: None,
        operator_actor: None,
        error_fingerprint: None,
        error_fingerprint_version: None,
        source_row: None,
        source_created_at: None,
        source_position: None,
        incarnation: None,
        replay_credit: None,
        replay_credit_at: None,
        deferral: None,
        policy_errors: None,
        policy_error_digest: None,
        status_note: None,
    }
}

/// JSON as it stands.
pub fn raw_json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// The statement that puts a row into a table of either engine.
pub fn insert_sql(table: &str, row: &Value, postgres: bool) -> String {
    let row = row.as_object().expect("a row is an object");
    let names: Vec<&str> = row.keys().map(String::as_str).collect();
    let values: Vec<String> = row.iter().map(|(name, value)| literal(name, value, postgres)).collect();
    format!("insert into {table} ({}) values ({})", names.join(", "), values.join(", "))
}

fn literal(column: &str, value: &Value, postgres: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) if postgres => truth.to_string(),
        Value::Bool(truth) => u8::from(*truth).to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) if postgres && matches!(column, "retried_on_generations" | "ids" | "streams") => {
            let items: Vec<String> = items.iter().map(|item| quoted(item.as_str().unwrap())).collect();
            let kind = if column == "ids" { "uuid" } else { "text" };
            format!("array[{}]::{kind}[]", items.join(", "))
        }
        Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
    }
}

/// A text as an SQL literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statements after which the outbox refuses messages to a destination with an error that says `no way`.
pub fn refuse_destination(backend: &super::Backend, destination: &str) -> String {
    if backend.is_postgres() {
        return format!(
            "create function refuse_destination() returns trigger language plpgsql as $$
             begin raise exception 'no way to {destination}'; end $$;
             create trigger refuse_destination before insert on wh_outbox for each row
             when (new.destination = '{destination}') execute function refuse_destination()"
        );
    }
    format!(
        "create trigger refuse_destination before insert on wh_outbox when new.destination = '{destination}'
         begin select raise(abort, 'no way to {destination}'); end"
    )
}
