//! The default matrix's own case table, through the component and the host's decision.

use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::decision::{Siblings, decide};
use reprieve::model::json::parse_entry;
use reprieve::model::view::PolicyView;
use serde_json::{Map, Value, json};

use super::{ENGINE, now, with_settings};

const CASES: &str = include_str!("../../policies/default-matrix/cases.toml");

#[tokio::test]
async fn the_default_matrix_answers_its_cases() {
    let table: Map<String, Value> = toml::from_str(CASES).unwrap();
    let cases = table["case"].as_array().unwrap();
    assert!(cases.len() >= 40);
    for case in cases {
        let found = evaluated(case).await;
        for (key, expected) in case["expect"].as_object().unwrap() {
            assert_eq!(&found[key], &in_milliseconds(expected), "{}: {key}", case["name"]);
        }
    }
}

async fn evaluated(case: &Value) -> Value {
    let at: Timestamp = case.get("now").map_or_else(now, |at| at.as_str().unwrap().parse().unwrap());
    let entry = parse_entry(&case["entry"].to_string(), at).unwrap();
    let settings = case.get("settings").cloned().unwrap_or(Value::Null);
    let policy = ENGINE.load(vec![with_settings(settings)]).await.unwrap();
    let answers = policy.session(at).ask(vec![PolicyView::of(&entry)]).await.remove(0).unwrap();
    let decision = decide(&entry, &answers, &Siblings::default(), Duration::from_secs(600), at);
    json!({
        "policy": {
            "name": answers.policy.name,
            "max_recovery_attempts": answers.policy.max_recovery_attempts,
            "cooldown": u64::try_from(answers.policy.cooldown.as_millis()).unwrap(),
            "hold_for_review_after_exhaustion": answers.policy.hold_for_review_after_exhaustion,
            "delay_first_attempt": answers.policy.delay_first_attempt,
        },
        "stream_mode": answers.stream_mode.name(),
        "should_recover": answers.should_recover,
        "decision": decision.name(),
    })
}

/// The expectation with its cooldown as the number that the policy gives.
fn in_milliseconds(expected: &Value) -> Value {
    let mut expected = expected.clone();
    if let Some(cooldown) = expected.get_mut("cooldown") {
        let duration: jiff::SignedDuration = cooldown.as_str().unwrap().parse().unwrap();
        *cooldown = json!(u64::try_from(duration.as_millis()).unwrap());
    }
    expected
}
