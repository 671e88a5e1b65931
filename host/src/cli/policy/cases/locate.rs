//! Where things stand in a TOML file.

use toml::de::{DeTable, DeValue};

/// One step of the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into an array.
    Item(usize),
}

/// The way as a key is written: `case[3].entry.failure_reason`.
pub fn written(way: &[Step]) -> String {
    way.iter().fold(String::new(), |key, step| match step {
        Step::Key(name) if key.is_empty() => name.clone(),
        Step::Key(name) => format!("{key}.{name}"),
        Step::Item(item) => format!("{key}[{item}]"),
    })
}

/// A file whose values can be asked for their lines.
pub struct Located<'a> {
    text: &'a str,
    table: Option<DeValue<'a>>,
}

impl<'a> Located<'a> {
    /// A file that is TOML already.
    pub fn new(text: &'a str) -> Self {
        let table = DeTable::parse(text).ok().map(|table| DeValue::Table(table.into_inner()));
        Self { text, table }
    }

    /// The line of a value's key, or of the last part of the way to it that is there.
    pub fn line(&self, way: &[Step]) -> usize {
        let (mut at, mut value) = (0, self.table.as_ref());
        for step in way {
            let Some(here) = value else { break };
            let next = match (step, here) {
                (Step::Key(key), DeValue::Table(table)) => table
                    .iter()
                    .find(|(name, _)| name.get_ref().as_ref() == key.as_str())
                    .map(|(name, value)| (name.span().start, value)),
                (Step::Item(item), DeValue::Array(array)) => array.get(*item).map(|value| (value.span().start, value)),
                _ => None,
            };
            let Some((start, inner)) = next else { break };
            (at, value) = (start, Some(inner.get_ref()));
        }
        let before = self.text.get(..at).unwrap_or("");
        before.matches('\n').count() + 1
    }
}
