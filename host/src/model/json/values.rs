//! Typed values of fields, each refused with its name and what was given.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::FieldError;
use super::escapes::mend_escapes;
use super::fields::Fields;
use crate::model::names::UnknownName;
use crate::model::time::stored;
use crate::model::{Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};

type Read<T> = Result<Option<T>, FieldError>;

impl<'a> Fields<'a> {
    /// A value of a JSON type, or the problem.
    fn plain<T: DeserializeOwned>(&self, name: &str, problem: &str) -> Read<T> {
        self.read(name, |raw| serde_json::from_str(raw).map_err(|_| problem.to_owned()))
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&'a str) -> Result<T, String>) -> Read<T> {
        self.get(name)
            .map(|raw| read(raw.get()).map_err(|problem| FieldError::new(name, raw.get(), problem)))
            .transpose()
    }

    /// A text; U+0000 and halves of surrogate pairs, which a database cannot hold, are made visible.
    pub(super) fn text(&self, name: &str) -> Read<String> {
        self.mended(name, "is no text")
    }

    pub(super) fn texts(&self, name: &str) -> Read<Vec<String>> {
        self.mended(name, "is no list of texts")
    }

    pub(super) fn named_texts(&self, name: &str) -> Read<BTreeMap<String, String>> {
        self.mended(name, "is no object of texts")
    }

    fn mended<T: DeserializeOwned>(&self, name: &str, problem: &str) -> Read<T> {
        self.read(name, |raw| serde_json::from_str(&mend_escapes(raw)).map_err(|_| problem.to_owned()))
    }

    pub(super) fn uuid(&self, name: &str) -> Read<Uuid> {
        self.read(name, |raw| {
            let text: String = serde_json::from_str(raw).map_err(|_| "is no UUID".to_owned())?;
            Uuid::parse_str(&text).map_err(|_| "is no UUID".to_owned())
        })
    }

    /// A time from 1970 on, cut to microseconds.
    pub(super) fn time(&self, name: &str) -> Read<Timestamp> {
        const PROBLEM: &str = "is no time with a zone, such as 2026-01-01T00:00:00Z";
        self.read(name, |raw| {
            let text: String = serde_json::from_str(raw).map_err(|_| PROBLEM.to_owned())?;
            let time: Timestamp = text.parse().map_err(|_| PROBLEM.to_owned())?;
            if time < Timestamp::UNIX_EPOCH {
                return Err("is before 1970-01-01T00:00:00Z".to_owned());
            }
            Ok(stored(time))
        })
    }

    /// A whole number from `min` on.
    pub(super) fn count(&self, name: &str, min: i32) -> Read<i32> {
        self.read(name, |raw| {
            let problem = || format!("is no whole number from {min} to {}", i32::MAX);
            serde_json::from_str(raw).ok().filter(|number| *number >= min).ok_or_else(problem)
        })
    }

    pub(super) fn big_integer(&self, name: &str) -> Read<i64> {
        self.plain(name, "is no whole number of 64 bits")
    }

    pub(super) fn small_integer(&self, name: &str) -> Read<i16> {
        self.plain(name, "is no whole number of 16 bits")
    }

    /// A JSON object, byte for byte.
    pub(super) fn object(&self, name: &str) -> Read<Box<RawValue>> {
        match self.get(name) {
            Some(raw) if !raw.get().starts_with('{') => Err(FieldError::new(name, raw.get(), "is no JSON object")),
            raw => Ok(raw.map(ToOwned::to_owned)),
        }
    }

    pub(super) fn source_table(&self) -> Read<SourceTable> {
        self.read("source_table", |raw| {
            let text: String = serde_json::from_str(raw).map_err(|_| "is no text".to_owned())?;
            text.parse().map_err(|error: UnknownName| expected(&error))
        })
    }

    pub(super) fn reason(&self) -> Read<FailureReason> {
        self.read("failure_reason", |raw| named(raw, |number| i32::try_from(number).ok().map(FailureReason)))
    }

    /// Recovering is never stored: it says that a host was at the row when it was read, and is read as Pending.
    pub(super) fn status(&self) -> Read<RecoveryStatus> {
        let status = self.read("recovery_status", |raw| named(raw, |number| RecoveryStatus::try_from(number).ok()))?;
        Ok(status.map(|status| if status == RecoveryStatus::Recovering { RecoveryStatus::Pending } else { status }))
    }

    pub(super) fn disposition(&self) -> Read<Disposition> {
        self.read("operator_disposition", |raw| named(raw, |number| Disposition::try_from(number).ok()))
    }

    pub(super) fn deferral(&self) -> Read<Deferral> {
        self.read("deferral", |raw| {
            let text: String = serde_json::from_str(raw).map_err(|_| "is no text".to_owned())?;
            Deferral::from_name(&text).ok_or_else(|| {
                let names: Vec<_> = Deferral::ALL.iter().map(|deferral| deferral.name()).collect();
                format!("is unknown; expected one of {}", names.join(", "))
            })
        })
    }
}

/// A value by its name or its number.
fn named<T: FromStr<Err = UnknownName>>(raw: &str, by_number: impl FnOnce(i64) -> Option<T>) -> Result<T, String> {
    match serde_json::from_str::<Value>(raw) {
        Ok(Value::String(text)) => match text.parse::<i64>() {
            Ok(number) => by_number(number).ok_or_else(|| "is no known number".to_owned()),
            Err(_) => text.parse().map_err(|error: UnknownName| expected(&error)),
        },
        Ok(Value::Number(number)) => number.as_i64().and_then(by_number).ok_or_else(|| "is no known number".to_owned()),
        Ok(_) | Err(_) => Err("is neither a name nor a number".to_owned()),
    }
}

fn expected(error: &UnknownName) -> String {
    format!("is no {}; expected one of {}", error.what, error.expected.join(", "))
}
