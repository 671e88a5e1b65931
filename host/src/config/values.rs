//! Values by kind, each with its default and its range.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::error::ConfigError;
use super::settings::{Given, Settings};
use crate::model::time::{NO_DURATION, read_duration, show_duration};

/// The word that switches an optional value off.
pub(super) const NONE: &str = "none";

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Settings {
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(given) = self.take(key, Some(default.to_string()), "true or false".to_owned()) else {
            return Ok(default);
        };
        let from_text = given.value.as_str().filter(|_| given.is_text_only()).and_then(|text| text.parse().ok());
        given.value.as_bool().or(from_text).ok_or_else(|| given.refused(key, "is neither true nor false"))
    }

    pub(super) fn count(
        &mut self,
        key: &'static str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, ConfigError> {
        let shown = between(range.start(), range.end());
        let Some(given) = self.take(key, Some(default.to_string()), shown.clone()) else { return Ok(default) };
        integer(&given)
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| range.contains(number))
            .ok_or_else(|| given.refused(key, format!("is no whole number from {shown}")))
    }

    /// A count, or `"none"` for no limit.
    pub(super) fn count_or_none(
        &mut self,
        key: &'static str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ConfigError> {
        let shown = between(range.start(), range.end());
        let Some(given) = self.take(key, Some(default.to_string()), format!("{shown}, or \"none\"")) else {
            return Ok(Some(default));
        };
        if given.value.as_str() == Some(NONE) {
            return Ok(None);
        }
        integer(&given)
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| range.contains(number))
            .map(Some)
            .ok_or_else(|| given.refused(key, format!("is neither a whole number from {shown} nor \"none\"")))
    }

    /// A number of bytes, plain or with a unit.
    pub(super) fn bytes(
        &mut self,
        key: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<usize, ConfigError> {
        let shown = between(show_bytes(*range.start()), show_bytes(*range.end()));
        let Some(given) = self.take(key, Some(quoted(&show_bytes(default))), shown.clone()) else {
            return Ok(default);
        };
        let number = integer(&given).or_else(|| given.value.as_str().and_then(with_unit));
        number
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| range.contains(number))
            .ok_or_else(|| given.refused(key, format!("is no number of bytes, such as \"64MiB\", from {shown}")))
    }

    pub(super) fn duration(
        &mut self,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, ConfigError> {
        let shown = between(show_duration(*range.start()), show_duration(*range.end()));
        let written = if default.is_zero() { "0".to_owned() } else { quoted(&show_duration(default)) };
        let Some(given) = self.take(key, Some(written), shown) else { return Ok(default) };
        within(&given, key, &range)
    }

    /// A duration, or `"none"` for no end.
    pub(super) fn duration_or_none(
        &mut self,
        key: &'static str,
        default: Option<Duration>,
        range: RangeInclusive<Duration>,
    ) -> Result<Option<Duration>, ConfigError> {
        let shown = between(show_duration(*range.start()), show_duration(*range.end()));
        let written = quoted(&default.map_or_else(|| NONE.to_owned(), show_duration));
        let Some(given) = self.take(key, Some(written), format!("{shown}, or \"none\"")) else {
            return Ok(default);
        };
        if given.value.as_str() == Some(NONE) {
            return Ok(None);
        }
        within(&given, key, &range).map(Some)
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, key: &'static str, default: Option<&str>) -> Result<Option<String>, ConfigError> {
        let Some(given) = self.take(key, default.map(quoted), "any text but an empty one".to_owned()) else {
            return Ok(default.map(str::to_owned));
        };
        match given.value.as_str() {
            Some(text) if !text.trim().is_empty() => Ok(Some(text.to_owned())),
            Some(_) => Err(given.refused(key, "is empty")),
            None => Err(given.refused(key, "is no text")),
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        default: &str,
        words: &[(&str, T)],
        fallback: T,
    ) -> Result<T, ConfigError> {
        let shown = words.iter().map(|(word, _)| quoted(word)).collect::<Vec<_>>().join(" or ");
        let Some(given) = self.take(key, Some(quoted(default)), shown.clone()) else { return Ok(fallback) };
        let found = given.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| given.refused(key, format!("is not {shown}")))
    }
}

fn between(least: impl Display, most: impl Display) -> String {
    format!("{least} to {most}")
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn integer(given: &Given) -> Option<i64> {
    let text = given.value.as_str().filter(|_| given.is_text_only());
    given.value.as_integer().or_else(|| text?.parse().ok())
}

fn with_unit(text: &str) -> Option<i64> {
    let (number, factor) = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number: u64 = number.trim_end().parse().ok()?;
    i64::try_from(number.checked_mul(factor)?).ok()
}

fn show_bytes(bytes: usize) -> String {
    let bytes = bytes as u64;
    let (unit, factor) =
        UNITS.into_iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor)).unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// The duration that was given, when it is in the range.
fn within(given: &Given, key: &str, range: &RangeInclusive<Duration>) -> Result<Duration, ConfigError> {
    let duration = parse_duration(given).map_err(|problem| given.refused(key, problem))?;
    if range.contains(&duration) {
        return Ok(duration);
    }
    let shown = between(show_duration(*range.start()), show_duration(*range.end()));
    Err(given.refused(key, format!("is out of range; allowed are {shown}")))
}

/// Reads `30m`, `250ms`, `1h 30m`; a bare number only when it is 0.
fn parse_duration(given: &Given) -> Result<Duration, String> {
    const NO_UNIT: &str = "has no unit; write it like 250ms, 30s, 10m or 6h";
    let text = match &given.value {
        Value::Integer(0) => return Ok(Duration::ZERO),
        Value::Integer(_) | Value::Float(_) => return Err(NO_UNIT.to_owned()),
        Value::String(text) => text.trim(),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            return Err(NO_DURATION.to_owned());
        }
    };
    if text != "0" && text.parse::<f64>().is_ok() {
        return Err(NO_UNIT.to_owned());
    }
    read_duration(text).map_err(str::to_owned)
}
