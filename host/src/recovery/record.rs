//! What is written down about a decision.

use std::fmt::Write as _;

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
    let policy = &answers.policy;
    let mut text = String::with_capacity(256);
    let written = write!(
        text,
        "{{\"cooldown_ms\":{},\"delay_first_attempt\":{},\"hold_for_review_after_exhaustion\":{},\
         \"max_recovery_attempts\":{},\"should_recover\":{},\"stream_mode\":\"{}\",\"name\":",
        policy.cooldown.as_millis(),
        policy.delay_first_attempt,
        policy.hold_for_review_after_exhaustion,
        policy.max_recovery_attempts,
        answers.should_recover,
        answers.stream_mode.name(),
    );
    debug_assert!(written.is_ok(), "a text takes whatever is written");
    json::write_string(&policy.name, &mut text);
    text.push('}');
    text
}

/// The entry as the policy saw it, as a JSON object.
#[must_use]
pub fn inputs(view: &PolicyView) -> String {
    let mut text = String::with_capacity(1024);
    json::write_entry(view, &mut text);
    text
}
