//! What is written down about a decision.

use serde_json::json;

use crate::model::view::PolicyView;
use crate::model::{Answers, json};

/// Which policy was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: String,
}

/// The answers as a JSON object.
#[must_use]
pub fn rule(answers: &Answers) -> String {
    json!({
        "should_recover": answers.should_recover,
        "name": answers.policy.name,
        "max_recovery_attempts": answers.policy.max_recovery_attempts,
        "cooldown_ms": u64::try_from(answers.policy.cooldown.as_millis()).unwrap_or(u64::MAX),
        "hold_for_review_after_exhaustion": answers.policy.hold_for_review_after_exhaustion,
        "delay_first_attempt": answers.policy.delay_first_attempt,
        "stream_mode": answers.stream_mode.name(),
    })
    .to_string()
}

/// The entry as the policy saw it, as a JSON object.
#[must_use]
pub fn inputs(view: &PolicyView) -> String {
    let mut text = String::with_capacity(1024);
    json::write_entry(view, &mut text);
    text
}
