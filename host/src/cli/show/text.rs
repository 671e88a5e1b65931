//! A dead letter whole, for people.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use uuid::Uuid;

use crate::model::DeadLetter;
use crate::model::json::to_text;
use crate::model::text::visible;
use crate::store::Whole;
use crate::store::operator::{Incarnation, RecordedDecision};

/// How much of an error text or a body is shown to people; JSON output holds all of it.
const MAX_SHOWN: usize = 4000;

/// Columns in the order in which they are written.
#[derive(Default)]
struct Columns(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Columns;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns, A::Error> {
                let mut columns = Vec::new();
                while let Some(column) = map.next_entry()? {
                    columns.push(column);
                }
                Ok(Columns(columns))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// A row that cannot be read.
pub fn unreadable(id: &str, problem: &str) -> String {
    format!("dead letter {} cannot be read: {}", visible(id), visible(problem))
}

/// The lines about a row: its columns that hold something, what it waits for, its body, its history.
pub fn lines(entry: &DeadLetter, whole: &Whole, waits_for: Option<Uuid>) -> Vec<String> {
    let Columns(columns) = serde_json::from_str(&to_text(entry)).unwrap_or_default();
    let mut lines: Vec<String> = columns
        .iter()
        .filter(|(name, value)| !value.is_null() && name != "error_text")
        .map(|(name, value)| format!("{name:<26}{}", shown(value)))
        .collect();
    lines.extend(waits_for.map(|earlier| format!("{:<26}{earlier}", "waits_for")));
    if let Some(error) = &entry.error_text {
        lines.push("error_text".to_owned());
        lines.extend(bounded(error).lines().map(|line| format!("  | {}", visible(line))));
    }
    lines.push(format!("{:<26}{}", "envelope", visible(&bounded(&whole.envelope))));
    if let Some(source_row) = &whole.source_row {
        lines.push(format!("{:<26}{}", "source_row", visible(&bounded(source_row))));
    }
    lines.extend(section("other deaths of this message", whole.incarnations.iter().map(incarnation)));
    lines.extend(section("decisions, oldest first", whole.decisions.iter().map(decision)));
    lines
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text).into_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => visible(&value.to_string()).into_owned(),
    }
}

fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SHOWN);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start}… ({} bytes more; --json shows all)", text.len() - end),
        _ => text.to_owned(),
    }
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut section: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    if !section.is_empty() {
        section.insert(0, format!("{title}:"));
    }
    section
}

fn incarnation(other: &Incarnation) -> String {
    format!(
        "{}  death {}, {:.0}, generation {}, {}",
        other.dead_letter_id,
        other.incarnation,
        other.dead_lettered_at,
        visible(&other.generation),
        other.recovery_status
    )
}

fn decision(decision: &RecordedDecision) -> String {
    let mut line = format!("{:.0}  {}", decision.decided_at, visible(&decision.decision));
    if let Some(policy) = &decision.policy_name {
        line += &format!("  by {}", visible(policy));
    }
    if let Some(digest) = &decision.policy_digest {
        line += &format!(" ({})", visible(digest.get(..12).unwrap_or(digest)));
    }
    if let Some(note) = &decision.note {
        line += &format!("  {}", visible(note));
    }
    line
}
