//! `import`: what is read, what is refused, and that it is all or nothing.

use serde_json::json;

use super::shop::{Kind, Shop, id, letter, lines};

/// Imports a good line and a bad one: nothing is imported, and the message says where and what.
#[track_caller]
fn assert_refused(bad: &str, expected: &[&str]) {
    let shop = Shop::new();
    let run = shop.import(&format!("{}{bad}\n", lines(&[letter(1, json!({}))]))).exits(2);
    for part in expected {
        assert!(run.stderr.contains(part), "{part:?} in {}", run.stderr);
    }
    assert!(run.stderr.contains('2'), "the line's number in {}", run.stderr);
    assert!(run.stderr.len() < 4000, "a message of {} bytes", run.stderr.len());
    assert_eq!(shop.run(&["list", "--json"]).exits(0).stdout, "");
}

#[test]
fn an_unknown_reason_is_refused() {
    assert_refused(&letter(2, json!({"failure_reason": "Tired"})).to_string(), &["failure_reason", "Tired"]);
}

#[test]
fn a_bad_id_is_refused() {
    assert_refused(&letter(2, json!({"source_id": "no-id"})).to_string(), &["source_id", "no-id"]);
}

#[test]
fn a_missing_field_is_refused() {
    assert_refused(r#"{"source_table": "wh_outbox", "failure_reason": 8}"#, &["message_type"]);
}

#[test]
fn broken_json_is_refused() {
    assert_refused(r#"{"source_table": "wh_outbox", "#, &["JSON"]);
}

#[test]
fn an_unknown_field_is_refused_with_the_nearest_one() {
    assert_refused(&letter(2, json!({"mesage_type": "x"})).to_string(), &["mesage_type", "message_type"]);
}

#[test]
fn an_id_twice_in_one_file_is_refused() {
    assert_refused(&letter(1, json!({})).to_string(), &["dead_letter_id", &id(1)]);
}

#[test]
fn a_line_of_20_mb_is_refused_without_being_shown() {
    let body = "x".repeat(20 * 1024 * 1024);
    assert_refused(&letter(2, json!({"error_text": body})).to_string(), &["16"]);
}

#[test]
fn the_first_ten_bad_lines_are_told() {
    let bad: Vec<_> = (1..=30).map(|n| letter(n, json!({"failure_reason": format!("Wrong{n}x")}))).collect();
    let run = Shop::new().import(&lines(&bad)).exits(2);
    assert!(run.stderr.contains("Wrong10x") && !run.stderr.contains("Wrong11x"), "{}", run.stderr);
    assert!(run.stderr.contains("20 more"), "{}", run.stderr);
}

in_both_shops! {
    fn ids_that_are_there_already_are_skipped_with_a_warning(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"message_type": "First"}))]);
        let run = shop.import(&lines(&[letter(1, json!({"message_type": "Second"})), letter(2, json!({}))])).exits(0);
        assert_eq!(run.json(), json!({"imported": 1, "skipped": 1}));
        assert!(run.stderr.contains(&id(1)), "{}", run.stderr);
        assert_eq!(shop.show(&id(1))["message_type"], "First");
    }

    fn what_a_line_leaves_out_is_filled_in(kind: Kind) {
        let shop = kind.shop();
        let line = r#"{"source_table": "wh_inbox", "message_type": "T", "failure_reason": 1234}"#;
        let arguments = ["import", "-", "--generation", "shop-1", "--now", "2026-01-01T00:00:00Z"];
        shop.program(&arguments).stdin(line).run().exits(0);
        let listed = shop.run(&["list", "--json"]).exits(0).json_lines();
        let id = listed[0]["dead_letter_id"].as_str().unwrap();
        let whole = shop.show(id);
        assert_eq!(whole["failure_reason"], 1234);
        assert_eq!(whole["generation"], "shop-1");
        assert_eq!(whole["recovery_status"], "Pending");
        assert_eq!(whole["dead_lettered_at"], "2026-01-01T00:00:00Z");
        assert_eq!(whole["source_created_at"], "2026-01-01T00:00:00Z");
        assert_eq!(whole["envelope"], json!({"event_data": {}, "metadata": {}}));
    }

    fn lines_of_a_stream_without_ids_and_times_are_re_emitted_in_their_order(kind: Kind) {
        let shop = kind.shop();
        let stream = id(7);
        let names: Vec<_> = (1..=5).map(|n| format!("m{n}")).collect();
        let line = |name| {
            json!({
                "source_table": "wh_outbox", "message_type": name, "failure_reason": "Throttled", "stream_id": stream,
            })
        };
        let place = match kind {
            Kind::Sqlite => "rowid",
            Kind::Postgres => {
                shop.execute("alter table wh_outbox add column place bigserial");
                "place"
            }
        };
        shop.import(&lines(&names.iter().map(line).collect::<Vec<_>>())).exits(0);
        shop.run(&["scan", "--until-idle"]).exits(0);
        assert_eq!(shop.texts(&format!("select message_type as n from wh_outbox order by {place}")), names);
        assert_eq!(shop.texts("select message_type as n from wh_dead_letters order by dead_letter_id"), names);
    }

    fn numbers_and_texts_of_a_body_come_back_as_they_went_in(kind: Kind) {
        let shop = kind.shop();
        let body = r#"{"event_data": {"sum": 12345678901234567890.10, "big": 9223372036854775807, "text": "Größe 請求書"}, "metadata": {}}"#;
        let line = letter(1, json!({})).to_string();
        let line = format!("{},\"envelope\":{body}}}", line.strip_suffix('}').unwrap());
        shop.import(&line).exits(0);
        let shown = shop.run(&["show", &id(1), "--json"]).exits(0).stdout;
        assert!(shown.contains("12345678901234567890.10") && shown.contains("9223372036854775807"), "{shown}");
        assert!(shown.contains("Größe 請求書"), "{shown}");
    }

    fn a_file_is_read_and_a_missing_one_named(kind: Kind) {
        let shop = kind.shop();
        std::fs::write(shop.path().join("dead.jsonl"), lines(&[letter(1, json!({}))])).unwrap();
        assert_eq!(shop.run(&["import", "dead.jsonl", "--json"]).exits(0).json(), json!({"imported": 1, "skipped": 0}));
        std::fs::create_dir(shop.path().join("folder")).unwrap();
        std::fs::write(shop.path().join("bad.jsonl"), "{}\n").unwrap();
        for wrong in ["gone.jsonl", "folder", "bad.jsonl"] {
            let refused = shop.run(&["import", wrong]).exits(2);
            assert!(refused.stderr.starts_with("error: ") && refused.stderr.contains(wrong), "{}", refused.stderr);
        }
    }
}
