//! Dead letters to JSON text.

use std::fmt::{Display, Write as _};

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::model::view::PolicyView;
use crate::model::{DeadLetter, FailureReason};

/// Writes a dead letter as one JSON object on one line, every column but the body.
#[must_use]
pub fn to_text(entry: &DeadLetter) -> String {
    let mut out = String::with_capacity(1024);
    out.push('{');
    write_columns(entry, &mut out);
    out.push('}');
    out
}

/// A dead letter as a JSON object whose fields can be looked up. The order of the columns is lost, and numbers in the
/// metadata that neither 64 bits nor a double can hold are rounded: what is printed comes from [`to_text`].
#[must_use]
pub fn to_json(entry: &DeadLetter) -> Map<String, Value> {
    serde_json::from_str(&to_text(entry)).unwrap_or_default()
}

/// Writes what a policy saw of a dead letter, as decisions record it: the columns that the contract shows it and the
/// credit, on which the decision depends as well, where they are not NULL (there is one such object for each decision),
/// and `attributes` when there are any. Shorter names come first, and names of one length in the order of their bytes: so
/// PostgreSQL keeps them, and it has nothing to sort.
pub fn write_entry(view: &PolicyView, out: &mut String) {
    let PolicyView { entry, attributes } = view;
    out.push('{');
    let mut columns = Columns { out, first: true, nulls: false };
    columns.json("metadata", &entry.metadata);
    columns.shown("source_id", Some(entry.source_id));
    columns.shown("stream_id", entry.stream_id);
    columns.attributes(attributes);
    columns.text("error_text", entry.error_text.as_deref());
    columns.text("generation", Some(&entry.generation));
    columns.text("destination", entry.destination.as_deref());
    columns.number("incarnation", Some(entry.incarnation));
    columns.text("message_type", Some(&entry.message_type));
    columns.shown("source_table", Some(entry.source_table));
    columns.text("replay_credit", entry.replay_credit.as_deref());
    columns.shown("dead_letter_id", Some(entry.dead_letter_id));
    columns.reason(entry.failure_reason);
    columns.shown("recovery_status", Some(entry.recovery_status));
    columns.shown("dead_lettered_at", Some(entry.dead_lettered_at));
    columns.shown("last_recovery_at", entry.last_recovery_at);
    columns.text("perspective_name", entry.perspective_name.as_deref());
    columns.shown("replay_credit_at", entry.replay_credit_at);
    columns.number("attempts_when_dlq", Some(entry.attempts_when_dlq));
    columns.text("error_fingerprint", entry.error_fingerprint.as_deref());
    columns.number("recovery_attempts", Some(entry.recovery_attempts));
    columns.texts("retried_on_generations", &entry.retried_on_generations);
    out.push('}');
}

/// Writes every column but the body as `"name":value`, separated by commas, without braces. Nothing it writes breaks
/// the line.
pub fn write_columns(entry: &DeadLetter, out: &mut String) {
    let mut columns = Columns { out, first: true, nulls: true };
    columns.shown("dead_letter_id", Some(entry.dead_letter_id));
    columns.shown("source_table", Some(entry.source_table));
    columns.shown("source_id", Some(entry.source_id));
    columns.shown("stream_id", entry.stream_id);
    columns.text("message_type", Some(&entry.message_type));
    columns.text("destination", entry.destination.as_deref());
    columns.text("perspective_name", entry.perspective_name.as_deref());
    columns.json("metadata", &entry.metadata);
    columns.reason(entry.failure_reason);
    columns.text("error_text", entry.error_text.as_deref());
    columns.number("attempts_when_dlq", Some(entry.attempts_when_dlq));
    columns.shown("dead_lettered_at", Some(entry.dead_lettered_at));
    columns.shown("dead_lettered_by", entry.dead_lettered_by);
    write_recovery(entry, &mut columns);
    write_own(entry, &mut columns);
}

fn write_recovery(entry: &DeadLetter, columns: &mut Columns<'_>) {
    columns.shown("recovery_status", Some(entry.recovery_status));
    columns.number("recovery_attempts", Some(entry.recovery_attempts));
    columns.shown("last_recovery_at", entry.last_recovery_at);
    columns.shown("next_recovery_at", entry.next_recovery_at);
    columns.shown("recovered_at", entry.recovered_at);
    columns.text("generation", Some(&entry.generation));
    columns.texts("retried_on_generations", &entry.retried_on_generations);
    columns.shown("operator_disposition", Some(entry.operator_disposition));
    columns.text("operator_notes", entry.operator_notes.as_deref());
    columns.text("operator_actor", entry.operator_actor.as_deref());
    columns.text("error_fingerprint", entry.error_fingerprint.as_deref());
    columns.number("error_fingerprint_version", entry.error_fingerprint_version);
}

fn write_own(entry: &DeadLetter, columns: &mut Columns<'_>) {
    columns.shown("source_created_at", entry.source_created_at);
    columns.number("source_position", entry.source_position);
    columns.number("incarnation", Some(entry.incarnation));
    columns.text("replay_credit", entry.replay_credit.as_deref());
    columns.shown("replay_credit_at", entry.replay_credit_at);
    columns.text("deferral", entry.deferral.map(|deferral| deferral.name()));
    columns.number("policy_errors", Some(entry.policy_errors));
    columns.text("policy_error_digest", entry.policy_error_digest.as_deref());
    columns.text("status_note", entry.status_note.as_deref());
}

struct Columns<'a> {
    out: &'a mut String,
    first: bool,
    /// Whether a column without a value is written as null or left out.
    nulls: bool,
}

impl Columns<'_> {
    fn name(&mut self, name: &str) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn absent(&mut self, name: &str) {
        if self.nulls {
            self.name(name);
            self.out.push_str("null");
        }
    }

    /// A value whose text needs no escapes: an id, a name or a time.
    fn shown(&mut self, name: &str, value: Option<impl Display>) {
        let Some(value) = value else { return self.absent(name) };
        self.name(name);
        let _ = write!(self.out, "\"{value}\"");
    }

    fn number(&mut self, name: &str, value: Option<impl Display>) {
        let Some(value) = value else { return self.absent(name) };
        self.name(name);
        let _ = write!(self.out, "{value}");
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        let Some(value) = value else { return self.absent(name) };
        self.name(name);
        write_string(value, self.out);
    }

    fn texts(&mut self, name: &str, values: &[String]) {
        self.name(name);
        self.out.push('[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            write_string(value, self.out);
        }
        self.out.push(']');
    }

    fn reason(&mut self, reason: FailureReason) {
        match reason.name() {
            Some(name) => self.shown("failure_reason", Some(name)),
            None => self.number("failure_reason", Some(reason.0)),
        }
    }

    fn attributes(&mut self, attributes: &[(String, String)]) {
        if attributes.is_empty() {
            return;
        }
        self.name("attributes");
        self.out.push('{');
        for (at, (name, value)) in attributes.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            write_string(name, self.out);
            self.out.push(':');
            write_string(value, self.out);
        }
        self.out.push('}');
    }

    /// JSON as it stands in the table; what is no JSON is written as a text, so that the row can still be printed.
    fn json(&mut self, name: &str, json: &str) {
        self.name(name);
        if serde_json::from_str::<IgnoredAny>(json).is_err() {
            return write_string(json, self.out);
        }
        // Within JSON a line break can only stand between two tokens.
        for (at, part) in json.trim().split(['\n', '\r']).enumerate() {
            if at > 0 {
                self.out.push(' ');
            }
            self.out.push_str(part);
        }
    }
}

/// Writes a text as a JSON string.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}
