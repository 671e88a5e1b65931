//! `list`, `show` and `stats`.

use serde_json::{Value, json};

use super::shop::{Kind, LATER, Shop, id, letter};

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["dead_letter_id"].as_str().unwrap()).collect()
}

fn several(kind: Kind) -> Shop {
    let stream = "01900000-0000-7000-a000-000000000001";
    kind.shop_with(&[
        letter(1, json!({"dead_lettered_at": "2026-01-01T00:00:01Z", "failure_reason": "ValidationError"})),
        letter(2, json!({"dead_lettered_at": "2026-01-01T00:00:02Z", "source_table": "wh_inbox"})),
        letter(3, json!({"dead_lettered_at": "2026-01-01T00:00:03Z", "stream_id": stream})),
        letter(4, json!({"dead_lettered_at": "2026-01-01T00:00:04Z", "message_type": "Shop.Legacy.Moved"})),
    ])
}

in_both_shops! {
    fn a_listing_is_newest_first_in_pages_and_without_bodies(kind: Kind) {
        let shop = several(kind);
        let first = shop.run(&["list", "--json", "--limit", "3"]).exits(0).json_lines();
        assert_eq!(ids(&first), [id(4), id(3), id(2)]);
        assert!(first.iter().all(|line| line.get("envelope").is_none() && line.get("source_row").is_none()));
        let rest = shop.run(&["list", "--json", "--after", &id(2)]).exits(0).json_lines();
        assert_eq!(ids(&rest), [id(1)]);
    }

    fn each_filter_picks_its_rows_and_filters_add_up(kind: Kind) {
        let shop = several(kind);
        let listed = |filter: &[&str]| -> Vec<String> {
            let lines = shop.run(&[&["list", "--json"], filter].concat()).exits(0).json_lines();
            ids(&lines).into_iter().map(str::to_owned).collect()
        };
        assert_eq!(listed(&["--reason", "validation-error"]), [id(1)]);
        assert_eq!(listed(&["--reason", "4"]), [id(1)]);
        assert_eq!(listed(&["--source-table", "wh_inbox"]), [id(2)]);
        assert_eq!(listed(&["--stream", "01900000-0000-7000-a000-000000000001"]), [id(3)]);
        assert_eq!(listed(&["--message-type", "Shop.L*"]), [id(4)]);
        assert_eq!(listed(&["--status", "Recovered"]), Vec::<String>::new());
        assert_eq!(
            listed(&["--status", "Pending", "--reason", "Throttled", "--source-table", "wh_outbox"]),
            [id(4), id(3)]
        );
    }

    fn a_row_is_shown_with_its_columns_at_the_top_level_and_its_history_beside_them(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"error_text": "boom", "metadata": {"tenant": "acme"}}))]);
        shop.run(&["hold", &id(1), "--actor", "ada", "--note", "look at it"]).exits(0);
        let whole = shop.show(&id(1));
        assert_eq!(whole["dead_letter_id"], id(1));
        assert_eq!(whole["failure_reason"], "Throttled");
        assert_eq!(whole["recovery_status"], "HoldForReview");
        assert_eq!(whole["operator_disposition"], "None");
        assert_eq!(whole["operator_actor"], "ada");
        assert_eq!(whole["operator_notes"], "look at it");
        assert_eq!(whole["metadata"], json!({"tenant": "acme"}));
        assert_eq!(whole["incarnations"], json!([]));
        assert_eq!(whole["decisions"][0]["decision"], "hold");
        assert!(whole["error_fingerprint"].is_string() && whole["source_row"].is_null());
    }

    fn an_unknown_id_is_not_found(kind: Kind) {
        let run = kind.shop().run(&["show", &id(7)]).exits(1);
        assert!(run.stderr.contains(&id(7)) && run.stdout.is_empty(), "{run:?}");
    }

    fn stats_count_rows_by_status_reason_source_table_and_error(kind: Kind) {
        let stats = several(kind).run(&["stats", "--json"]).exits(0).json();
        assert_eq!(stats["by_status"]["Pending"], 4);
        assert_eq!(stats["by_status"]["Recovered"], 0);
        assert_eq!(stats["by_reason"], json!({"ValidationError": 1, "Throttled": 3}));
        assert_eq!(stats["by_source_table"], json!({"wh_outbox": 3, "wh_inbox": 1}));
        assert_eq!(stats["by_fingerprint"], json!({}));
        assert_eq!(stats["oldest_due"], "2026-01-01T00:00:01Z");
    }

    fn a_row_that_waits_for_an_earlier_one_of_its_stream_says_for_which(kind: Kind) {
        let stream = "01900000-0000-7000-a000-000000000001";
        let shop = kind.shop_with(&[
            letter(1, json!({"stream_id": stream, "next_recovery_at": "2026-02-01T00:00:00Z"})),
            letter(2, json!({"stream_id": stream, "source_created_at": "2026-01-01T00:00:05Z"})),
        ]);
        let counts = shop.run(&["scan", "--until-idle", "--json", "--now", LATER]).exits(0).json();
        assert_eq!((&counts["blocked"], &counts["recovered"]), (&json!(1), &json!(0)));

        assert_eq!(shop.show(&id(2))["waits_for"], id(1));
        assert_eq!(shop.show(&id(1))["waits_for"], Value::Null);
        let told = shop.run(&["show", &id(2)]).exits(0).stdout;
        assert!(told.lines().any(|line| line.starts_with("waits_for ") && line.ends_with(&id(1))), "{told}");

        let listed = shop.run(&["list", "--json", "--stream", stream]).exits(0);
        for line in listed.json_lines() {
            let earlier = (line["dead_letter_id"] == id(2)).then(|| id(1));
            assert_eq!(line.get("waits_for").and_then(Value::as_str), earlier.as_deref());
        }
        let table = shop.run(&["list", "--stream", stream]).exits(0).stdout;
        assert!(table.lines().next().unwrap().ends_with("WAITS FOR"), "{table}");
        let line = table.lines().find(|line| line.starts_with(&id(2))).unwrap();
        assert!(line.ends_with(&id(1)), "{table}");
        kind.shop().import(&listed.stdout).exits(0);
    }
}

#[test]
fn a_listing_for_people_has_headings_and_says_how_to_go_on() {
    let run = several(Kind::Sqlite).run(&["list", "--limit", "2"]).exits(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", run.stdout);
    assert!(lines[0].starts_with("DEAD LETTER") && lines[1].starts_with(&id(4)), "{}", run.stdout);
    assert!(run.stderr.contains(&format!("--after {}", id(3))), "{}", run.stderr);
}

#[test]
fn control_characters_of_an_error_are_visible_to_people() {
    let shop = Shop::with(&[letter(1, json!({"error_text": "red \u{1b}[31m alert\nsecond line"}))]);
    let shown = shop.run(&["show", &id(1)]).exits(0).stdout;
    assert!(!shown.contains('\u{1b}') && shown.contains("[31m") && shown.contains("second line"), "{shown}");
}
