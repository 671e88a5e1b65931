//! How values stand in the file, and reading them whatever stands there.

use jiff::Timestamp;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Decode, Row as _, Sqlite, TypeInfo, ValueRef};
use uuid::Uuid;

use crate::model::time::stored;

/// A time as text: UTC with six decimals, so that the order of texts is the order of times.
pub(super) fn time_text(time: Timestamp) -> String {
    format!("{:.6}", stored(time))
}

/// A list of texts as a JSON array.
pub(super) fn json_list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let items = items.into_iter().map(|item| serde_json::Value::String(item.as_ref().to_owned())).collect();
    serde_json::Value::Array(items).to_string()
}

/// A list of ids as a JSON array.
pub(super) fn json_ids(ids: impl IntoIterator<Item = Uuid>) -> String {
    json_list(ids.into_iter().map(|id| id.to_string()))
}

type Bound<'q> = Query<'q, Sqlite, SqliteArguments>;

/// One value of a row, whatever its column was declared as.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Text that is not UTF-8.
    BrokenText(Vec<u8>),
    Blob(Vec<u8>),
}

impl Cell {
    /// The value at a place that the statement is known to return; `Null` when it does not.
    pub(super) fn at(row: &SqliteRow, index: usize) -> Self {
        row.try_get_raw(index).map_or(Self::Null, Self::of)
    }

    /// The value of a column that the statement is known to return; `Null` when it does not.
    pub(super) fn named(row: &SqliteRow, column: &str) -> Self {
        row.try_get_raw(column).map_or(Self::Null, Self::of)
    }

    fn of(value: sqlx::sqlite::SqliteValueRef<'_>) -> Self {
        // Of a NULL, the driver gives the type of the column.
        if value.is_null() {
            return Self::Null;
        }
        let kind = value.type_info().name().to_owned();
        let bytes = |value| <Vec<u8> as Decode<Sqlite>>::decode(value).unwrap_or_default();
        match kind.as_str() {
            "INTEGER" => <i64 as Decode<Sqlite>>::decode(value).map_or(Self::Null, Self::Integer),
            "REAL" => <f64 as Decode<Sqlite>>::decode(value).map_or(Self::Null, Self::Real),
            "TEXT" => match String::from_utf8(bytes(value)) {
                Ok(text) => Self::Text(text),
                Err(broken) => Self::BrokenText(broken.into_bytes()),
            },
            "BLOB" => Self::Blob(bytes(value)),
            _ => Self::Null,
        }
    }

    /// Binds it as the next parameter of a statement, as what it is.
    pub(super) fn bind_to(self, query: Bound<'_>) -> Bound<'_> {
        match self {
            Self::Null => query.bind(None::<String>),
            Self::Integer(number) => query.bind(number),
            Self::Real(number) => query.bind(number),
            Self::Text(text) => query.bind(text),
            // The statement makes text of it where it is to be text.
            Self::BrokenText(bytes) | Self::Blob(bytes) => query.bind(bytes),
        }
    }

    /// As text for people, and for columns that hold only text: lossy where it must be.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Integer(number) => Some(number.to_string()),
            Self::Real(number) => Some(number.to_string()),
            Self::Text(text) => Some(text),
            Self::BrokenText(bytes) | Self::Blob(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// As a whole number, if it is one.
    pub(super) const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Null | Self::Real(_) | Self::Text(_) | Self::BrokenText(_) | Self::Blob(_) => None,
        }
    }

    /// As a time, if it is one, in any form with a zone.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Text(text) => text.parse().ok().map(stored),
            Self::Null | Self::Integer(_) | Self::Real(_) | Self::BrokenText(_) | Self::Blob(_) => None,
        }
    }

    /// As an id, if it is one, in any form.
    pub(super) fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Text(text) => Uuid::try_parse(text).ok(),
            Self::Null | Self::Integer(_) | Self::Real(_) | Self::BrokenText(_) | Self::Blob(_) => None,
        }
    }
}
