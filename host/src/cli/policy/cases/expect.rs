//! What a case expects of a policy's answers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Wrong, known, object};
use crate::model::time::show_duration;
use crate::model::{Answers, RecoveryPolicy};

/// The answers and the decision as a document: what `policy eval` prints, with the cooldown as people write it.
#[must_use]
pub fn document(answers: &Answers, decision: &str, not_before: Option<Timestamp>) -> Value {
    let RecoveryPolicy { name, max_recovery_attempts, cooldown, .. } = &answers.policy;
    let mut document = json!({
        "policy": {
            "name": name,
            "max_recovery_attempts": max_recovery_attempts,
            "cooldown": show_duration(*cooldown),
            "hold_for_review_after_exhaustion": answers.policy.hold_for_review_after_exhaustion,
            "delay_first_attempt": answers.policy.delay_first_attempt,
        },
        "stream_mode": answers.stream_mode.name(),
        "should_recover": answers.should_recover,
        "decision": decision,
    });
    if let (Some(fields), Some(not_before)) = (document.as_object_mut(), not_before) {
        fields.insert("not_before".to_owned(), json!(not_before));
    }
    document
}

const KEYS: [&str; 5] = ["policy", "stream_mode", "should_recover", "decision", "not_before"];
const POLICY_KEYS: [&str; 5] =
    ["name", "max_recovery_attempts", "cooldown", "hold_for_review_after_exhaustion", "delay_first_attempt"];
const DECISIONS: [&str; 5] = ["recover", "hold", "permanently-fail", "wait", "skip"];
const STREAM_MODES: [&str; 2] = ["per-message", "tail-aware"];

/// One expected value, by its key.
pub type Expected = (String, Value);

/// Takes an `expect` table apart: `policy.cooldown` and so on, each with a value in the form of [`document`].
///
/// # Errors
///
/// A key that is not known, or a value that no policy can answer with.
pub fn read(expect: &Value) -> Result<Vec<Expected>, Wrong> {
    let fields = object(expect)?;
    let mut expected = Vec::new();
    for (key, value) in fields {
        let key = known(key, &KEYS)?;
        if key != "policy" {
            expected.push((key.to_owned(), plain_value(key, value).map_err(|problem| Wrong::new(problem).at(key))?));
            continue;
        }
        for (inner, value) in object(value).map_err(|wrong| wrong.at(key))? {
            let inner = known(inner, &POLICY_KEYS).map_err(|wrong| wrong.at(key))?;
            let value = policy_value(inner, value).map_err(|problem| Wrong::new(problem).at(inner).at(key))?;
            expected.push((format!("policy.{inner}"), value));
        }
    }
    if expected.is_empty() {
        return Err(Wrong::new("expects nothing"));
    }
    Ok(expected)
}

fn policy_value(key: &str, value: &Value) -> Result<Value, String> {
    match key {
        "name" => value.as_str().map(Value::from).ok_or_else(|| format!("{value} is no text")),
        "max_recovery_attempts" => {
            let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
            count.map(Value::from).ok_or_else(|| format!("{value} is no whole number from 0 to {}", u32::MAX))
        }
        "cooldown" => super::duration(value).map(|cooldown| json!(show_duration(cooldown))),
        _ => value.as_bool().map(Value::from).ok_or_else(|| format!("{value} is neither true nor false")),
    }
}

fn plain_value(key: &str, value: &Value) -> Result<Value, String> {
    let one_of = |words: &[&str]| {
        let found = value.as_str().filter(|word| words.contains(word));
        found.map(Value::from).ok_or_else(|| format!("{value} is none of {}", words.join(", ")))
    };
    match key {
        "decision" => one_of(&DECISIONS),
        "stream_mode" => one_of(&STREAM_MODES),
        "not_before" => super::time(value).map(|time| json!(time)),
        _ => value.as_bool().map(Value::from).ok_or_else(|| format!("{value} is neither true nor false")),
    }
}

/// The value at `policy.cooldown` and so on.
pub fn found<'a>(document: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(document, |value, part| value.get(part).unwrap_or(&Value::Null))
}
