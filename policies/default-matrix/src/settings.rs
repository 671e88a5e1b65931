//! The operator's changes to the matrix.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, IntoDeserializer, MapAccess, Visitor, value};
use serde::{Deserialize, Deserializer};

use crate::matrix::{Matrix, Row};
use crate::reason::Reason;

/// The most characters of a policy's name.
pub const MAX_NAME: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    policy_by_reason: BTreeMap<String, Object<Change>>,
}

/// The keys of a row that the operator wrote; the others keep their value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    #[serde(default, deserialize_with = "name")]
    name: Option<String>,
    max_recovery_attempts: Option<u32>,
    #[serde(default, deserialize_with = "milliseconds")]
    cooldown: Option<u64>,
    hold_for_review_after_exhaustion: Option<bool>,
    delay_first_attempt: Option<bool>,
}

/// A struct that is read from an object only; a derived struct would take an array of its fields, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        value.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

fn name<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(value)?;
    match name.chars().count() {
        0 => Err(D::Error::custom("a name must not be empty")),
        1..=MAX_NAME => Ok(Some(name)),
        count => Err(D::Error::custom(format_args!("a name of {count} characters, allowed are {MAX_NAME}"))),
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(value)?;
    let duration = humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format_args!("{text:?} is no duration such as \"10m\" or \"1h 30m\": {error}"))
    })?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(D::Error::custom(format_args!("{text:?} is finer than a millisecond")));
    }
    u64::try_from(duration.as_millis())
        .map(Some)
        .map_err(|_| D::Error::custom(format_args!("{text:?} is longer than 2^64 milliseconds")))
}

impl Change {
    fn applied_to(self, row: Row) -> Row {
        Row {
            name: self.name.map_or(row.name, Cow::Owned),
            max_recovery_attempts: self.max_recovery_attempts.unwrap_or(row.max_recovery_attempts),
            cooldown_ms: self.cooldown.unwrap_or(row.cooldown_ms),
            hold_for_review_after_exhaustion: self
                .hold_for_review_after_exhaustion
                .unwrap_or(row.hold_for_review_after_exhaustion),
            delay_first_attempt: self.delay_first_attempt.unwrap_or(row.delay_first_attempt),
        }
    }
}

/// Reads settings and applies them to the matrix. A row that is new starts from that of `Unknown`, as the same
/// settings change it.
///
/// # Errors
///
/// What is wrong with the settings, and the path to it.
pub fn configured(settings: &str) -> Result<Matrix, String> {
    // What a host gives that nothing was configured for: an instance that answers about one entry should not pay for
    // reading it.
    if settings == "{}" {
        return Ok(Matrix::default());
    }
    let json = &mut serde_json::Deserializer::from_str(settings);
    let Object(parsed) = serde_path_to_error::deserialize(&mut *json).map_err(located)?;
    json.end().map_err(|error| error.to_string())?;
    let mut changes = reasons(parsed)?;
    let mut matrix = Matrix::default();
    let fallback = changes.remove_entry(&Reason::Unknown);
    for (reason, change) in fallback.into_iter().chain(changes) {
        let row = change.applied_to(matrix.row(reason));
        matrix.set(reason, row);
    }
    Ok(matrix)
}

fn reasons(settings: Settings) -> Result<BTreeMap<Reason, Change>, String> {
    let known = |(name, Object(change)): (String, Object<Change>)| {
        Reason::deserialize(name.as_str().into_deserializer())
            .map(|reason| (reason, change))
            .map_err(|error: value::Error| format!("policy_by_reason.{name}: {error}"))
    };
    settings.policy_by_reason.into_iter().map(known).collect()
}

fn located(error: serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let reason = error.into_inner();
    // The path of what is wrong with the whole text is a dot.
    if path == "." { reason.to_string() } else { format!("{path}: {reason}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn refused(settings: &str) -> String {
        configured(settings).unwrap_err()
    }

    #[test]
    fn no_settings_are_the_matrix() {
        assert_eq!(configured("{}").unwrap(), Matrix::default());
    }

    #[test]
    fn keys_left_out_keep_the_value_of_the_row() {
        let matrix = configured(r#"{"policy_by_reason":{"Throttled":{"cooldown":"1h 30m"}}}"#).unwrap();
        let row = matrix.row(Reason::Throttled);
        assert_eq!((row.name.as_ref(), row.max_recovery_attempts, row.cooldown_ms), ("AggressiveRetry", 3, 5_400_000));
    }

    #[test]
    fn a_new_row_starts_from_that_of_unknown() {
        let settings =
            r#"{"policy_by_reason":{"EmptyStreamId":{"max_recovery_attempts":9},"Unknown":{"cooldown":"250ms"}}}"#;
        let row = configured(settings).unwrap().row(Reason::EmptyStreamId);
        assert_eq!((row.name.as_ref(), row.max_recovery_attempts, row.cooldown_ms), ("OneShotThenHold", 9, 250));
    }

    #[test]
    fn a_wrong_key_is_refused_with_its_path() {
        assert!(refused(r#"{"by_reason":{}}"#).starts_with("by_reason: unknown field"));
        let message = refused(r#"{"policy_by_reason":{"Throttled":{"cooldwn":"1h"}}}"#);
        assert!(message.starts_with("policy_by_reason.Throttled.cooldwn: unknown field"), "{message}");
    }

    #[test]
    fn a_wrong_reason_is_refused_with_its_path() {
        for reason in ["Trottled", "Other", "99"] {
            let message = refused(&format!(r#"{{"policy_by_reason":{{"{reason}":{{}}}}}}"#));
            assert!(message.contains(&format!("unknown variant `{reason}`")), "{message}");
            assert!(message.starts_with(&format!("policy_by_reason.{reason}: ")), "{message}");
        }
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_path() {
        for (key, value) in [
            ("cooldown", r#""soon""#),
            ("cooldown", r#""-5m""#),
            ("cooldown", r#""5us""#),
            ("cooldown", r#""999999999999y""#),
            ("cooldown", "10"),
            ("max_recovery_attempts", "-1"),
            ("max_recovery_attempts", "4294967296"),
            ("hold_for_review_after_exhaustion", r#""yes""#),
            ("name", r#""""#),
            ("name", &format!("{:?}", "x".repeat(201))),
        ] {
            let message = refused(&format!(r#"{{"policy_by_reason":{{"Throttled":{{"{key}":{value}}}}}}}"#));
            assert!(message.starts_with(&format!("policy_by_reason.Throttled.{key}: ")), "{message}");
        }
    }

    #[test]
    fn what_is_no_json_object_is_refused() {
        for settings in ["", "[]", "null", "{", "{} {}", "\u{0}", r#"{"policy_by_reason":{"Throttled":[]}}"#] {
            assert!(configured(settings).is_err(), "{settings:?}");
        }
    }
}
