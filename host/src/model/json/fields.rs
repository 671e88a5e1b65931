//! The fields of one JSON object, unread.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FieldError;

/// The fields of an object, each with its value as it was written.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Takes an object apart. Refused: anything but one object, a field given twice, a field that is not `known`.
    pub(super) fn parse(text: &'a str, known: &[&str]) -> Result<Self, FieldError> {
        let fields = Self::parse_any(text)?;
        for (at, (name, value)) in fields.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(FieldError::new(name, value.get(), unknown(name, known)));
            }
            if fields.0.iter().take(at).any(|(earlier, _)| earlier == name) {
                return Err(FieldError::new(name, value.get(), "is given twice"));
            }
        }
        Ok(fields)
    }

    /// Takes an object apart whatever its fields are.
    pub(super) fn parse_any(text: &'a str) -> Result<Self, FieldError> {
        if !text.trim_start().starts_with('{') {
            return Err(FieldError::new("", text, "a JSON object is expected"));
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = reader
            .deserialize_map(FieldsVisitor)
            .and_then(|fields| reader.end().map(|()| fields))
            .map_err(|error| FieldError::new("", "", format!("broken JSON: {error}")))?;
        Ok(Self(fields))
    }

    /// A field's value; `None` when it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .rev()
            .find(|(field, _)| field == name)
            .map(|(_, value)| *value)
            .filter(|value| value.get() != "null")
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    match crate::model::names::nearest(name, known.iter().copied()) {
        Some(nearest) => format!("is no known field; did you mean {nearest}?"),
        None => "is no known field".to_owned(),
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}
