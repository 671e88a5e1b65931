//! What operators configure.

use reprieve::model::FailureReason;
use reprieve::policy::LoadError;
use serde_json::{Value, json};

use super::{ENGINE, ask_one, builtin, entry, now, with_settings, words};

#[tokio::test]
async fn settings_change_rows_and_the_digest() {
    let settings = json!({ "policy_by_reason": {
        "Throttled": { "max_recovery_attempts": 5, "cooldown": "10m" },
        "Unknown": { "name": "Patient", "cooldown": "1h 30m" },
    }});
    let policy = ENGINE.load(vec![with_settings(settings.clone())]).await.unwrap();
    let throttled = ask_one(&policy, &entry(FailureReason(8))).await.unwrap().policy;
    assert_eq!((throttled.name.as_str(), throttled.max_recovery_attempts), ("AggressiveRetry", 5));
    assert_eq!(throttled.cooldown.as_secs(), 600);
    let other = ask_one(&policy, &entry(FailureReason(12345))).await.unwrap().policy;
    assert_eq!((other.name.as_str(), other.cooldown.as_secs()), ("Patient", 5400));

    let plain = ENGINE.load(vec![builtin()]).await.unwrap();
    let again = ENGINE.load(vec![with_settings(settings)]).await.unwrap();
    assert_ne!(policy.digest(), plain.digest());
    assert_eq!(policy.digest(), again.digest());
    assert_eq!(policy.digest().len(), 64);
    assert_eq!(policy.name(), "default-matrix");
}

#[tokio::test]
async fn settings_that_the_policy_refuses_are_refused_with_their_path() {
    let settings = json!({ "policy_by_reason": { "Throttled": { "cooldown": "soon" } } });
    let Err(error) = ENGINE.load(vec![with_settings(settings)]).await else { panic!("accepted") };
    let message = words(&error);
    let start = "settings of policy default-matrix: policy_by_reason.Throttled.cooldown: ";
    assert!(message.starts_with(start), "{message}");
}

#[tokio::test]
async fn settings_are_a_json_object_or_nothing() {
    for settings in [json!([]), json!("x"), json!(1), json!(true)] {
        let loaded = ENGINE.load(vec![with_settings(settings)]).await;
        assert!(matches!(loaded, Err(LoadError::Settings { .. })));
    }
    let policy = ENGINE.load(vec![with_settings(Value::Null)]).await.unwrap();
    assert!(policy.session(now()).ask(vec![]).await.is_empty());
}
