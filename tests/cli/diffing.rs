//! `policy diff` over a store and what is recorded in it.

use serde_json::{Value, json};

use super::shop::{DIED, Kind, LATER, Shop, id, letter};
use crate::harness::Run;
use crate::policy::guests::{POLICY, component, core, hostile};

pub const MATRIX: &str = "builtin:default-matrix";
/// Throttled messages are held at once.
pub const STRICT: &str = r#"{"policy_by_reason": {"Throttled": {"max_recovery_attempts": 0,
    "hold_for_review_after_exhaustion": true}}}"#;
pub const PATIENT: &str = r#"{"policy_by_reason": {"Throttled": {"cooldown": "2h"}}}"#;

/// Compares the default matrix with itself under other settings.
pub fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["policy", "diff", MATRIX, MATRIX, "--new-settings", "new.json", "--json"], more].concat()
}

/// Compares the default matrix with itself under other settings, over the shop.
fn diff(shop: &Shop, settings: &str, more: &[&str]) -> Run {
    std::fs::write(shop.path().join("new.json"), settings).unwrap();
    shop.run(&arguments(more))
}

/// How many were compared, how many differ, and in what.
pub fn counts(report: &Value) -> [u64; 5] {
    let by_kind = &report["by_kind"];
    [&report["compared"], &report["differ"], &by_kind["decision"], &by_kind["time"], &by_kind["answers"]]
        .map(|count| count.as_u64().unwrap())
}

in_both_shops! {
    fn rows_that_would_be_decided_differently_are_grouped_with_examples(kind: Kind) {
        let mut letters: Vec<Value> = (1..=5).map(|n| letter(n, json!({}))).collect();
        letters.push(letter(6, json!({"message_type": "Shop.Refund"})));
        letters.push(letter(7, json!({"failure_reason": "LeaseExpired"})));
        let shop = kind.shop_with(&letters);
        let before = shop.run(&["list", "--json"]).exits(0).stdout;

        let report = diff(&shop, STRICT, &["--now", LATER]).exits(1).json();

        assert_eq!(counts(&report), [7, 6, 6, 0, 0]);
        let group = |message_type: &str, count: u64, ids: &[u32]| {
            (json!("Throttled"), json!(message_type), json!(count), json!(ids.iter().map(|n| id(*n)).collect::<Vec<_>>()))
        };
        let groups: Vec<_> = report["groups"].as_array().unwrap().iter()
            .map(|group| (group["reason"].clone(), group["message_type"].clone(), group["count"].clone(), group["examples"].clone()))
            .collect();
        assert_eq!(groups, [group("Shop.OrderPlaced", 5, &[1, 2, 3]), group("Shop.Refund", 1, &[6])]);
        let first = &report["groups"][0];
        assert_eq!((&first["kind"], &first["from"], &first["to"]), (&json!("decision"), &json!("recover"), &json!("hold")));
        assert_eq!(first["old"]["policy"]["max_recovery_attempts"], 3);
        assert_eq!(first["new"]["policy"]["max_recovery_attempts"], 0);
        diff(&shop, STRICT, &["--exit-zero"]).exits(0);
        assert_eq!(shop.run(&["list", "--json"]).exits(0).stdout, before, "nothing was changed");
    }

    fn a_policy_differs_in_nothing_from_itself(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({})), letter(2, json!({"failure_reason": "Unknown"}))]);
        let report = diff(&shop, "{}", &[]).exits(0).json();
        assert_eq!((counts(&report), &report["groups"]), ([2, 0, 0, 0, 0], &json!([])));
        let text = shop.run(&["policy", "diff", MATRIX, MATRIX]).exits(0).stdout;
        assert!(text.contains("2 dead letters compared: none differs"), "{text}");
    }

    fn another_time_and_another_answer_are_told_apart_from_another_decision(kind: Kind) {
        let tried = json!({"recovery_attempts": 1, "last_recovery_at": DIED});
        let shop = kind.shop_with(&[letter(1, json!({})), letter(2, tried.clone()), letter(3, tried)]);
        let at = |now: &str| diff(&shop, PATIENT, &["--now", now]).exits(1).json();

        let waiting = at("2026-01-01T00:10:00Z");
        assert_eq!(counts(&waiting), [3, 3, 0, 2, 1]);
        let time = &waiting["groups"][0];
        assert_eq!((&time["kind"], &time["old"]["not_before"]), (&json!("time"), &json!("2026-01-01T00:30:00Z")));
        assert_eq!(time["new"]["not_before"], "2026-01-01T02:00:00Z");
        let answers = &waiting["groups"][1];
        assert_eq!((&answers["kind"], &answers["changed"]), (&json!("answers"), &json!(["policy.cooldown"])));
        assert_eq!(counts(&at(LATER)), [3, 3, 2, 0, 1]);
    }

    fn rows_are_picked_by_time_and_status_and_settled_ones_are_left_out(kind: Kind) {
        let later = |n: u32| letter(n, json!({"dead_lettered_at": LATER}));
        let held = letter(3, json!({"recovery_status": "HoldForReview"}));
        let failed = letter(4, json!({"recovery_status": "PermanentlyFailed"}));
        let shop = kind.shop_with(&[letter(1, json!({})), later(2), held, failed]);
        let compared = |more: &[&str]| counts(&diff(&shop, "{}", more).exits(0).json())[0];

        assert_eq!(compared(&[]), 3);
        assert_eq!(compared(&["--since", LATER]), 1);
        assert_eq!(compared(&["--since", "2026-01-01T01:00:00.000001Z"]), 0);
        assert_eq!(compared(&["--status", "hold-for-review"]), 1);
        assert_eq!(compared(&["--status", "PermanentlyFailed", "--status", "2"]), 2);
        assert_eq!(compared(&["--status", "Recovered"]), 0);
    }

    fn every_page_is_compared(kind: Kind) {
        let shop = kind.shop_with(&(1..=600).map(|n| letter(n, json!({}))).collect::<Vec<_>>());
        assert_eq!(counts(&diff(&shop, STRICT, &[]).exits(1).json()), [600, 600, 600, 0, 0]);
    }

    fn an_older_death_is_held_whatever_the_policies_say(kind: Kind) {
        let again = |n: u32| letter(n, json!({"source_id": "01900000-0000-7000-9000-000000000001", "incarnation": n}));
        let shop = kind.shop_with(&[again(1), again(2)]);
        let report = diff(&shop, STRICT, &[]).exits(1).json();
        assert_eq!((counts(&report), &report["groups"][0]["examples"]), ([2, 2, 1, 0, 1], &json!([id(2)])));
    }

    fn a_policy_is_judged_against_what_was_decided_at_the_time_of_then(kind: Kind) {
        let tried = json!({"recovery_attempts": 1, "last_recovery_at": DIED});
        let shop = kind.shop_with(&[
            letter(1, json!({})), letter(2, tried), letter(3, json!({"failure_reason": "ValidationError"})),
            letter(4, json!({"recovery_attempts": 3, "last_recovery_at": DIED})),
        ]);
        let counted = shop.run(&["scan", "--json", "--now", "2026-01-01T00:10:00Z"]).exits(0).json();
        assert_eq!(counted["scanned"], 4, "{counted}");
        shop.run(&["hold", &id(4), "--actor", "ada"]).exits(0);

        let same = diff(&shop, "{}", &["--recorded"]).exits(0).json();
        assert_eq!((counts(&same), &same["by_old"]), ([4, 0, 0, 0, 0], &json!(4)));

        let strict = diff(&shop, STRICT, &["--recorded"]).exits(1).json();
        assert_eq!(counts(&strict), [4, 3, 3, 0, 0]);
        let mut changes: Vec<String> = strict["groups"].as_array().unwrap().iter()
            .map(|group| format!("{} to {}: {}", group["from"].as_str().unwrap(), group["to"].as_str().unwrap(), group["examples"][0].as_str().unwrap()))
            .collect();
        changes.sort();
        let expected = [("permanently-fail", 4), ("recover", 1), ("wait", 2)];
        assert_eq!(changes, expected.map(|(from, n)| format!("{from} to hold: {}", id(n))));

        // The wait of then, not one that began today.
        let patient = diff(&shop, PATIENT, &["--recorded"]).exits(1).json();
        assert_eq!(counts(&patient), [4, 3, 0, 1, 2]);
        assert_eq!(patient["groups"][0]["new"]["not_before"], "2026-01-01T02:00:00Z");
        assert_eq!(counts(&diff(&shop, STRICT, &["--recorded", "--since", LATER]).exits(0).json())[0], 0);
        let alone = shop.run(&["policy", "diff", MATRIX, "--recorded", "--json"]).exits(0).json();
        assert_eq!((&alone["old"], counts(&alone)), (&Value::Null, [4, 0, 0, 0, 0]));
    }

    fn a_failure_of_then_is_beside_what_another_policy_decides(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"message_type": "X"})), letter(2, json!({}))]);
        std::fs::write(shop.path().join("guest.wasm"), hostile("unreachable")).unwrap();
        shop.run(&["scan", "--policy", "guest.wasm", "--now", LATER]).exits(0);

        let report = shop.run(&["policy", "diff", "guest.wasm", MATRIX, "--recorded", "--json"]).exits(1).json();

        assert_eq!((counts(&report), &report["failed"]), ([2, 2, 1, 0, 1], &json!({"old": 1, "new": 0})));
        let failed = &report["groups"][0];
        assert_eq!((&failed["from"], &failed["to"]), (&json!("fails"), &json!("recover")));
        assert!(failed["old"]["failure"].as_str().unwrap().contains("trap"), "{failed}");
    }

    fn a_policy_that_fails_on_some_rows_differs_there(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"message_type": "X"})), letter(2, json!({}))]);
        std::fs::write(shop.path().join("good.wasm"), component(POLICY, &core("", "", ""))).unwrap();
        std::fs::write(shop.path().join("bad.wasm"), hostile("unreachable")).unwrap();
        let report = shop.run(&["policy", "diff", "good.wasm", "bad.wasm", "--json"]).exits(1).json();
        assert_eq!((counts(&report), &report["failed"]), ([2, 1, 1, 0, 0], &json!({"old": 0, "new": 1})));
        assert_eq!(report["groups"][0]["to"], "fails");
        shop.run(&["policy", "diff", "bad.wasm", "bad.wasm"]).exits(0);
    }
}

#[test]
fn people_get_a_table_in_which_nothing_hides() {
    let shop = Shop::with(&[letter(1, json!({"message_type": "Order\u{1b}[31m\nPlaced"})), letter(2, json!({}))]);
    std::fs::write(shop.path().join("new.json"), STRICT).unwrap();
    let run = shop.run(&["policy", "diff", MATRIX, MATRIX, "--new-settings", "new.json"]).exits(1);
    for part in [
        "Decided differently: 2",
        "ROWS  REASON     MESSAGE TYPE",
        "Order\\u{1b}[31m\\nPlaced",
        &format!("such as {}", id(1)),
        "2 dead letters compared: 2 differ (2 in the decision, 0 in the time, 0 in the answers alone)",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert_eq!(run.stderr, "", "what is short shows no progress");
}

#[test]
fn a_store_without_schema_is_not_given_one_and_one_out_of_reach_is_told() {
    let shop = Shop::unmigrated();
    let refused = shop.run(&["policy", "diff", MATRIX, MATRIX]).exits(2);
    assert!(refused.stderr.contains("reprieve migrate"), "{}", refused.stderr);
    assert_eq!(std::fs::read_dir(shop.path()).unwrap().count(), 0);
    let away = shop.run(&["policy", "diff", MATRIX, MATRIX, "--store", "postgres://x@127.0.0.1:1/x"]).exits(3);
    assert!(away.stderr.contains("cannot be reached"), "{}", away.stderr);
}

#[test]
fn an_empty_store_shows_nothing_and_says_so() {
    let empty = Shop::new().run(&["policy", "diff", MATRIX, MATRIX]).exits(0);
    assert!(empty.stdout.contains("nothing was compared: that shows nothing"), "{}", empty.stdout);
}
