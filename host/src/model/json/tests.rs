#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::model::view::{MAX_METADATA, PolicyView};
use crate::model::{DeadLetter, FailureReason, RecoveryStatus, SourceTable};

const ID: &str = "01900000-0000-7000-8000-000000000001";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn entry(text: &str) -> DeadLetter {
    parse_entry(text, now()).unwrap()
}

fn refused(line: &Value) -> String {
    ImportLine::parse(&line.to_string()).unwrap_err().to_string()
}

fn line(more: Value) -> Value {
    let mut line = json!({"source_table": "wh_outbox", "message_type": "M", "failure_reason": "Throttled"});
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    line
}

#[test]
fn an_entry_needs_a_reason_only() {
    let read = entry(r#"{"failure_reason": "throttled"}"#);
    assert_eq!(read.failure_reason, FailureReason(8));
    assert_eq!(read.source_table, SourceTable::Outbox);
    assert_eq!((read.message_type.as_str(), read.metadata.as_str()), ("", "{}"));
    assert_eq!((read.dead_lettered_at, read.source_created_at), (now(), Some(now())));
    assert_eq!(read.dead_letter_id.get_version_num(), 7);
    assert_ne!(read.dead_letter_id, read.source_id);
    assert_eq!((read.incarnation, read.error_fingerprint), (1, None));
    assert_eq!(parse_entry("{}", now()).unwrap_err().to_string(), "failure_reason is required");
}

#[test]
fn what_is_written_is_read_back_whole() {
    let written = to_text(&entry(&format!(
        r#"{{"failure_reason": 42, "dead_letter_id": "{ID}", "source_table": "wh_inbox", "source_id": "{ID}",
            "stream_id": "{ID}", "message_type": "Zahlung \"gebucht\"", "destination": "a\\b", "perspective_name": "p",
            "metadata": {{"n": 123456789012345678901234567890, "d": 1.10}}, "error_text": "a\n\tb\u0001 🙂",
            "attempts_when_dlq": 3, "dead_lettered_at": "2026-01-01T01:00:00.5+01:00", "dead_lettered_by": "{ID}",
            "recovery_status": "hold-for-review", "recovery_attempts": 2, "last_recovery_at": "2026-01-02T00:00:00Z",
            "next_recovery_at": "2026-01-02T00:00:00Z", "generation": "g1", "retried_on_generations": ["g0", "g\"1"],
            "operator_disposition": "HoldIndefinitely", "operator_notes": "n", "operator_actor": "a",
            "source_position": 9223372036854775807, "incarnation": 2, "replay_credit": "*",
            "replay_credit_at": "2026-01-02T00:00:00Z", "deferral": "cooldown", "policy_errors": 1,
            "policy_error_digest": "d", "status_note": "s"}}"#
    )));
    assert_eq!(to_text(&entry(&written)), written);
    assert!(written.starts_with(&format!(r#"{{"dead_letter_id":"{ID}","source_table":"wh_inbox""#)), "{written}");
    for part in [
        r#""failure_reason":42"#,
        r#""n": 123456789012345678901234567890, "d": 1.10"#,
        r#""dead_lettered_at":"2026-01-01T00:00:00.5Z""#,
        r#""recovery_status":"HoldForReview""#,
        r#""operator_disposition":"HoldIndefinitely""#,
        r#""error_text":"a\n\tb\u0001 🙂""#,
        r#""recovered_at":null"#,
        r#""source_position":9223372036854775807"#,
    ] {
        assert!(written.contains(part), "{part} in {written}");
    }
}

#[test]
fn every_column_but_the_body_is_written() {
    let written = to_json(&entry(r#"{"failure_reason": 0}"#));
    let missing: Vec<_> = super::import::COLUMNS.iter().filter(|column| !written.contains_key(**column)).collect();
    assert_eq!(missing, [&"envelope", &"source_row"]);
    assert_eq!(written.len(), super::import::COLUMNS.len() - 2);
}

#[test]
fn a_written_row_is_one_line_even_when_its_metadata_is_not_or_is_no_json() {
    let mut row = entry(r#"{"failure_reason": 0}"#);
    row.metadata = "{\n  \"a\": 1\r\n}\n".to_owned();
    assert!(to_text(&row).contains(r#""metadata":{   "a": 1  }"#), "{}", to_text(&row));
    row.metadata = "{broken\n".to_owned();
    assert!(to_text(&row).contains(r#""metadata":"{broken\n""#));
    assert!(!to_text(&row).contains('\n'));
}

#[test]
fn what_a_policy_saw_is_recorded_with_its_attributes_and_can_be_read_again() {
    let mut row = entry(r#"{"failure_reason": 0}"#);
    row.metadata = format!("{{\"a\": \"{}\"}}", "x".repeat(MAX_METADATA));
    let mut written = String::new();
    write_entry(&PolicyView::of(&row), &mut written);
    assert!(written.contains(r#","attributes":{"metadata-truncated":"true"},"#), "{written}");
    assert_eq!(entry(&written).metadata, "{}");
    assert!(!written.contains("null"), "{written}");
}

#[test]
fn what_a_policy_saw_and_the_credit_are_recorded_and_in_the_order_of_jsonb() {
    let at = Some(now());
    let seen = DeadLetter {
        stream_id: Some(Uuid::from_u128(7)),
        destination: Some("orders".to_owned()),
        perspective_name: Some("totals".to_owned()),
        metadata: r#"{"zz": [1, 2], "a": {"b": ","}}"#.to_owned(),
        error_text: Some("no, \"really\"".to_owned()),
        last_recovery_at: at,
        retried_on_generations: vec!["g1".to_owned(), "g2".to_owned()],
        replay_credit: Some("g2".to_owned()),
        replay_credit_at: at,
        error_fingerprint: Some("6c1f0d2b3a495e78".to_owned()),
        ..entry(r#"{"failure_reason": 77, "recovery_attempts": 2, "attempts_when_dlq": 3, "incarnation": 4}"#)
    };
    let unseen = DeadLetter {
        operator_notes: Some("a note".to_owned()),
        status_note: Some("another".to_owned()),
        policy_errors: 3,
        source_position: Some(5),
        ..seen.clone()
    };
    let attributes = vec![("metadata-truncated".to_owned(), "true".to_owned())];
    let mut written = String::new();
    write_entry(&PolicyView { entry: unseen, attributes: attributes.clone() }, &mut written);
    assert_eq!(
        parse_view(&written).unwrap(),
        PolicyView {
            entry: DeadLetter {
                error_fingerprint_version: None,
                source_created_at: Some(seen.dead_lettered_at),
                ..seen
            },
            attributes,
        }
    );

    let fields: serde_json::Map<String, Value> = serde_json::from_str(&written).unwrap();
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort_by_key(|name| (name.len(), *name));
    assert_eq!(names.len(), 22);
    let places = names.iter().map(|name| written.find(&format!("\"{name}\":")).unwrap());
    assert!(places.is_sorted(), "{written}");
}

#[test]
fn a_string_is_written_as_any_json_reader_expects() {
    let text = "\u{0}\u{1}\u{8}\u{c}\n\r\t\"\\/\u{7f}é🙂\u{2028}";
    let mut written = String::new();
    write_string(text, &mut written);
    assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
}

#[test]
fn a_body_is_kept_byte_for_byte() {
    let body = r#"{ "event_data":{"n":12345678901234567890123,"d":0.10,"u":"\u0000\u00e9"} , "metadata":{}}"#;
    let text = format!(
        r#"{{"source_table":"wh_outbox","message_type":"M","failure_reason":8,"envelope":{body},"source_row":{{"scope": 1e2}}}}"#
    );
    let read = ImportLine::parse(&text).unwrap();
    assert_eq!(read.envelope.unwrap().get(), body);
    assert_eq!(read.source_row.unwrap().get(), r#"{"scope": 1e2}"#);
}

#[test]
fn a_deeply_nested_body_is_read() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = format!(
        r#"{{"source_table":"wh_outbox","message_type":"M","failure_reason":8,"envelope":{{"event_data":{deep}}}}}"#
    );
    assert!(ImportLine::parse(&text).unwrap().envelope.unwrap().get().contains(&deep));
}

#[test]
fn null_is_absent() {
    let read = ImportLine::parse(&line(json!({"stream_id": null, "generation": null, "envelope": null})).to_string());
    let read = read.unwrap();
    assert!(read.stream_id.is_none() && read.generation.is_none() && read.envelope.is_none());
}

#[test]
fn texts_are_made_fit_for_a_database() {
    let read = ImportLine::parse(&line(json!({"error_text": "a\u{0}", "message_type": "b\u{0}"})).to_string()).unwrap();
    assert_eq!((read.error_text.as_deref(), read.message_type.as_str()), (Some("a\u{2400}"), "b\u{2400}"));
}

#[test]
fn half_a_surrogate_pair_in_a_text_is_made_visible() {
    let line = r#"{"source_table": "wh_outbox", "message_type": "M\ud800", "failure_reason": 8,
        "error_text": "\ud83d\ude00\udc00!", "retried_on_generations": ["g\udfff"]}"#;
    let read = ImportLine::parse(line).unwrap();
    assert_eq!(read.message_type, "M\u{fffd}");
    assert_eq!(read.error_text.as_deref(), Some("😀\u{fffd}!"));
    assert_eq!(read.retried_on_generations, Some(vec!["g\u{fffd}".to_owned()]));
}

#[test]
fn a_row_in_work_is_read_as_pending() {
    let read = ImportLine::parse(&line(json!({"recovery_status": "Recovering"})).to_string()).unwrap();
    assert_eq!(read.recovery_status, Some(RecoveryStatus::Pending));
}

#[test]
fn a_refused_field_is_named_with_its_value_and_what_is_expected() {
    let cases = [
        (
            json!({"source_table": "outbox"}),
            "source_table \"outbox\" is no source table; expected one of wh_outbox, wh_inbox, wh_perspective_events",
        ),
        (json!({"source_table": null}), "source_table is required"),
        (json!({"message_type": null}), "message_type is required"),
        (json!({"failure_reason": null}), "failure_reason is required"),
        (json!({"failure_reason": true}), "failure_reason true is neither a name nor a number"),
        (json!({"failure_reason": 1.5}), "failure_reason 1.5 is no known number"),
        (json!({"failure_reason": 5_000_000_000_i64}), "failure_reason 5000000000 is no known number"),
        (json!({"source_id": "abc"}), "source_id \"abc\" is no UUID"),
        (json!({"source_id": 7}), "source_id 7 is no UUID"),
        (json!({"error_test": "x"}), "error_test \"x\" is no known field; did you mean error_text?"),
        (json!({"zzzzzzzzzzz": 1}), "zzzzzzzzzzz 1 is no known field"),
        (json!({"envelope": []}), "envelope [] is no JSON object"),
        (json!({"metadata": "x"}), "metadata \"x\" is no JSON object"),
        (json!({"attempts_when_dlq": -1}), "attempts_when_dlq -1 is no whole number from 0 to 2147483647"),
        (json!({"incarnation": 0}), "incarnation 0 is no whole number from 1 to 2147483647"),
        (json!({"recovery_attempts": "1"}), "recovery_attempts \"1\" is no whole number from 0 to 2147483647"),
        (
            json!({"dead_lettered_at": "2026-01-01T00:00:00"}),
            "dead_lettered_at \"2026-01-01T00:00:00\" is no time with a zone, such as 2026-01-01T00:00:00Z",
        ),
        (
            json!({"dead_lettered_at": "1969-12-31T23:59:59Z"}),
            "dead_lettered_at \"1969-12-31T23:59:59Z\" is before 1970-01-01T00:00:00Z",
        ),
        (
            json!({"recovery_status": "Done"}),
            "recovery_status \"Done\" is no recovery status; expected one of Pending, Recovering, HoldForReview, Recovered, PermanentlyFailed",
        ),
        (json!({"recovery_status": 7}), "recovery_status 7 is no known number"),
        (json!({"recovery_status": "Recovered"}), "recovered_at is required when recovery_status is Recovered"),
        (
            json!({"recovered_at": "2026-01-01T00:00:00Z"}),
            "recovered_at 2026-01-01T00:00:00Z is set, but recovery_status is not Recovered",
        ),
        (
            json!({"deferral": "later"}),
            "deferral \"later\" is unknown; expected one of cooldown, skip, stream, policy-error, failure, operator",
        ),
        (json!({"retried_on_generations": "g"}), "retried_on_generations \"g\" is no list of texts"),
        (json!({"generation": ""}), "generation \"\" is empty"),
        (
            json!({"error_fingerprint": "0123456789abcdef0"}),
            "error_fingerprint 0123456789abcdef0 is longer than 16 characters",
        ),
    ];
    for (more, expected) in cases {
        assert_eq!(refused(&line(more)), expected);
    }
    assert!(
        refused(&line(json!({"failure_reason": "Trottled"})))
            .starts_with("failure_reason \"Trottled\" is no failure reason; expected one of None, ")
    );
}

#[test]
fn a_perspective_line_needs_what_names_its_event() {
    let base = json!({"source_table": "wh_perspective_events", "stream_id": ID, "perspective_name": "p", "envelope": {"event_id": ID}});
    assert!(ImportLine::parse(&line(base.clone()).to_string()).is_ok());
    let cases = [
        ("stream_id", Value::Null, "stream_id is required for wh_perspective_events"),
        ("perspective_name", json!(""), "perspective_name is required for wh_perspective_events"),
        ("envelope", Value::Null, "envelope.event_id is required for wh_perspective_events"),
        ("envelope", json!({}), "envelope.event_id is required for wh_perspective_events"),
        ("envelope", json!({"event_id": "x"}), "envelope.event_id \"x\" is no UUID"),
    ];
    for (field, value, expected) in cases {
        let mut changed = base.clone();
        changed[field] = value;
        assert_eq!(refused(&line(changed)), expected);
    }
}

#[test]
fn text_that_is_no_object_is_refused() {
    let message = |text: &str| ImportLine::parse(text).unwrap_err().to_string();
    assert_eq!(message("[1]"), "a JSON object is expected: [1]");
    assert!(message("{\"source_table\": ").starts_with("broken JSON: EOF"));
    assert!(message("{} x").starts_with("broken JSON: trailing"));
    assert_eq!(message(r#"{"generation":"a","generation":"b"}"#), "generation \"b\" is given twice");
}

#[test]
fn a_long_value_is_cut_and_control_characters_are_shown() {
    let message = refused(&line(json!({"source_id": format!("\u{7f}{}", "x".repeat(500))})));
    assert!(message.starts_with("source_id \"\\u{7f}xxx") && message.ends_with("x… is no UUID"), "{message}");
    assert!(message.len() < 130);
}
