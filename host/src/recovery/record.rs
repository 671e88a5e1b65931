//! What is written down about a decision.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::model::view::PolicyView;
use crate::model::{Answers, RecoveryPolicy, StreamMode, json};

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

/// The answers that [`rule`] wrote; `None` of anything else, such as what is recorded when there was no answer.
#[must_use]
pub fn answers(rule: &str) -> Option<Answers> {
    let rule: Value = serde_json::from_str(rule).ok()?;
    let modes = [StreamMode::PerMessage, StreamMode::TailAware];
    let mode = rule.get("stream_mode")?.as_str()?;
    Some(Answers {
        should_recover: rule.get("should_recover")?.as_bool()?,
        policy: RecoveryPolicy {
            name: rule.get("name")?.as_str()?.to_owned(),
            max_recovery_attempts: u32::try_from(rule.get("max_recovery_attempts")?.as_u64()?).ok()?,
            cooldown: Duration::from_millis(rule.get("cooldown_ms")?.as_u64()?),
            hold_for_review_after_exhaustion: rule.get("hold_for_review_after_exhaustion")?.as_bool()?,
            delay_first_attempt: rule.get("delay_first_attempt")?.as_bool()?,
        },
        stream_mode: modes.into_iter().find(|known| known.name() == mode)?,
    })
}

/// The entry as the policy saw it, as a JSON object.
#[must_use]
pub fn inputs(view: &PolicyView) -> String {
    let mut text = String::with_capacity(1024);
    json::write_entry(view, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        for stream_mode in [StreamMode::PerMessage, StreamMode::TailAware] {
            let policy = RecoveryPolicy {
                name: "a \"quoted\" näme\n".to_owned(),
                max_recovery_attempts: u32::MAX,
                cooldown: Duration::from_millis(u64::MAX),
                hold_for_review_after_exhaustion: true,
                delay_first_attempt: false,
            };
            let given = Answers { should_recover: false, policy, stream_mode };
            assert_eq!(answers(&rule(&given)), Some(given));
        }
        assert_eq!((answers("null"), answers(r#"{"actor":"ada"}"#), answers("")), (None, None, None));
    }
}
