//! What is wrong with a field.

use crate::model::text::excerpt;

/// How many characters of a value a message shows.
pub const MAX_SHOWN_VALUE: usize = 80;

/// A field that cannot be read, with the value that was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", display(field, value, problem))]
pub struct FieldError {
    /// The field's name; empty when the text as a whole is wrong.
    pub field: String,
    /// The value as JSON, cut at [`MAX_SHOWN_VALUE`] characters, control characters visible; empty when there is none.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, value: &str, problem: impl Into<String>) -> Self {
        Self { field: excerpt(field, MAX_SHOWN_VALUE), value: excerpt(value, MAX_SHOWN_VALUE), problem: problem.into() }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, "", "is required")
    }
}

fn display(field: &str, value: &str, problem: &str) -> String {
    match (field.is_empty(), value.is_empty()) {
        (true, true) => problem.to_owned(),
        (true, false) => format!("{problem}: {value}"),
        (false, true) => format!("{field} {problem}"),
        (false, false) => format!("{field} {value} {problem}"),
    }
}
