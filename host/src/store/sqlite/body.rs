//! The body of a dead letter: making it from a source row, and reading it back.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::stored_value::{decode, encode};
use super::values::Cell;
use crate::model::SourceTable;

/// Parts of a source row that stand in the envelope, not in `source_row`.
const IN_ENVELOPE: [&str; 2] = ["event_data", "metadata"];
/// Added to the key of a part that is no JSON, or not as SQLite would write it: the value as it stood in the column.
const AS_STORED: &str = "_text";

/// What a source row becomes.
pub(super) struct Body {
    pub(super) envelope: String,
    /// A copy of the source row's metadata; `{}` when it is no JSON.
    pub(super) metadata: String,
    pub(super) source_row: String,
}

impl Body {
    pub(super) fn of(table: SourceTable, row: &[(String, Cell)]) -> Self {
        let cell = |name: &str| row.iter().find(|(column, _)| column == name).map_or(&Cell::Null, |(_, cell)| cell);
        let kept = row.iter().filter(|(column, _)| !is_in_envelope(table, column));
        let source_row: Map<String, Value> = kept.map(|(column, cell)| (column.clone(), encode(cell))).collect();
        let metadata = json_text(cell("metadata")).unwrap_or("{}").to_owned();
        let envelope = match table {
            SourceTable::Outbox | SourceTable::Inbox => {
                format!("{{{}, {}}}", part("event_data", cell("event_data")), part("metadata", cell("metadata")))
            }
            SourceTable::PerspectiveEvents => {
                let member = |name| format!("\"{name}\": {}", encode(cell(name)));
                format!("{{{}, {}}}", member("event_id"), member("perspective_name"))
            }
        };
        Self { envelope, metadata, source_row: Value::Object(source_row).to_string() }
    }
}

/// Whether a column of a source table is stored in the envelope.
pub(super) fn is_in_envelope(table: SourceTable, column: &str) -> bool {
    table != SourceTable::PerspectiveEvents && IN_ENVELOPE.contains(&column)
}

/// A member of the envelope; its JSON is embedded as it is, so that no digit of a number changes.
fn part(name: &str, cell: &Cell) -> String {
    match json_text(cell) {
        Some(json) => format!("\"{name}\": {json}"),
        None => format!("\"{name}{AS_STORED}\": {}", encode(cell)),
    }
}

/// The text of a column if it is JSON that nothing stands around.
fn json_text(cell: &Cell) -> Option<&str> {
    let Cell::Text(text) = cell else {
        return None;
    };
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    (raw.get().len() == text.len()).then_some(text)
}

/// A JSON object whose members keep their bytes.
pub(super) struct Members(BTreeMap<String, Box<RawValue>>);

impl Members {
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// The value of a member of `source_row`.
    pub(super) fn value(&self, name: &str) -> Option<Cell> {
        self.0.get(name).map(|raw| decode(raw))
    }

    /// The value of a column that was put into the envelope.
    pub(super) fn part(&self, name: &str) -> Option<Cell> {
        let json = self.0.get(name).map(|raw| Cell::Text(raw.get().to_owned()));
        json.or_else(|| self.value(&format!("{name}{AS_STORED}")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_every_shape_come_back_as_they_were() {
        let shapes = [
            Cell::Text(r#"{"n": 12345678901234567890.1200, "s": "\u0000\ud800", "n": 1}"#.to_owned()),
            Cell::Text(" {\"spaces\": true}\n".to_owned()),
            Cell::Text("not json".to_owned()),
            Cell::Text(String::new()),
            Cell::Text("null".to_owned()),
            Cell::Text(format!("{}1{}", "[".repeat(5000), "]".repeat(5000))),
            Cell::Blob(vec![1, 2, 255]),
            Cell::BrokenText(vec![0x7b, 0xff]),
            Cell::Integer(7),
        ];
        for shape in shapes {
            let row = [("event_data".to_owned(), shape.clone()), ("metadata".to_owned(), shape.clone())];
            let body = Body::of(SourceTable::Outbox, &row);
            let members = Members::parse(&body.envelope).unwrap();
            assert_eq!(members.part("event_data"), Some(shape.clone()));
            assert_eq!(members.part("metadata"), Some(shape));
            assert_eq!(body.source_row, "{}");
        }
    }
}
