//! What a policy is configured with: a JSON object, which people may also write as TOML. Pure.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// Where the settings of a policy come from.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsSource {
    /// A JSON object; null counts as `{}`.
    Given(Value),
    /// A file that holds one, in the form that its name says. Read whenever the policy is loaded.
    File(PathBuf),
}

impl Default for SettingsSource {
    fn default() -> Self {
        Self::Given(Value::Object(Map::new()))
    }
}

/// A form in which settings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFormat {
    /// One JSON object.
    Json,
    /// A TOML document; times become text.
    Toml,
}

impl SettingsFormat {
    /// The form of a file by the ending of its name: TOML for `toml`, else JSON.
    #[must_use]
    pub fn of_extension(extension: Option<&str>) -> Self {
        if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) { Self::Toml } else { Self::Json }
    }

    /// Reads settings.
    ///
    /// # Errors
    ///
    /// What is wrong with the text and, as far as it is known, on which line.
    pub fn read(self, text: &str) -> Result<Map<String, Value>, String> {
        match self {
            Self::Json => match serde_json::from_str(text).map_err(|error| format!("no valid JSON: {error}"))? {
                Value::Object(settings) => Ok(settings),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Err("not a JSON object".to_owned())
                }
            },
            Self::Toml => {
                let table: toml::Table =
                    text.parse().map_err(|error| format!("no valid TOML: {}", toml_problem(text, &error)))?;
                Ok(table.into_iter().map(|(name, value)| (name, from_toml(value))).collect())
            }
        }
    }
}

/// A TOML value as JSON.
#[must_use]
pub fn from_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        // What JSON cannot hold becomes text, for the policy to refuse.
        toml::Value::Float(number) if !number.is_finite() => Value::String(number.to_string()),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(values) => Value::Array(values.into_iter().map(from_toml).collect()),
        toml::Value::Table(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, from_toml(value))).collect())
        }
    }
}

/// What is wrong with a TOML text and on which line. The line itself is not shown, since it may hold a password.
#[must_use]
pub fn toml_problem(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let from_toml = SettingsFormat::Toml.read("[policy_by_reason.Throttled]\ncooldown = \"10m\"\n").unwrap();
        let from_json =
            SettingsFormat::Json.read(r#"{"policy_by_reason": {"Throttled": {"cooldown": "10m"}}}"#).unwrap();
        assert_eq!(from_toml, from_json);
    }

    #[test]
    fn a_time_becomes_text_and_numbers_stay_numbers() {
        let read = SettingsFormat::Toml.read("since = 2026-01-01T00:00:00Z\nratio = 0.5\nmany = [1, 2]").unwrap();
        assert_eq!(Value::Object(read), json!({"since": "2026-01-01T00:00:00Z", "ratio": 0.5, "many": [1, 2]}));
        let odd = SettingsFormat::Toml.read("a = nan\nb = -inf").unwrap();
        assert_eq!(Value::Object(odd), json!({"a": "NaN", "b": "-inf"}));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let toml = SettingsFormat::Toml.read("a = 1\nb = \n").unwrap_err();
        assert!(toml.contains("no valid TOML: line 2"), "{toml}");
        let json = SettingsFormat::Json.read("{\n \"a\": }").unwrap_err();
        assert!(json.contains("no valid JSON") && json.contains("line 2"), "{json}");
        assert_eq!(SettingsFormat::Json.read("[]").unwrap_err(), "not a JSON object");
    }

    #[test]
    fn the_ending_of_a_name_says_which_form_it_is() {
        assert_eq!(SettingsFormat::of_extension(Some("TOML")), SettingsFormat::Toml);
        assert_eq!(SettingsFormat::of_extension(Some("json")), SettingsFormat::Json);
        assert_eq!(SettingsFormat::of_extension(None), SettingsFormat::Json);
    }
}
