//! `retry`, `hold` and `give-up`.

use serde_json::json;

use super::shop::{Kind, LATER, Shop, id, letter};

fn two(kind: Kind) -> Shop {
    kind.shop_with(&[letter(1, json!({})), letter(2, json!({"failure_reason": "ValidationError"}))])
}

in_both_shops! {
    fn each_verb_does_what_it_says(kind: Kind) {
        let shop = two(kind);
        let status = |arguments: &[&str]| {
            shop.run(arguments).exits(0);
            let whole = shop.show(&id(1));
            format!("{} {}", whole["recovery_status"].as_str().unwrap(), whole["operator_disposition"].as_str().unwrap())
        };
        assert_eq!(status(&["hold", &id(1)]), "HoldForReview None");
        assert_eq!(status(&["hold", &id(1), "--indefinitely"]), "HoldForReview HoldIndefinitely");
        assert_eq!(status(&["give-up", &id(1)]), "PermanentlyFailed MarkPermanentlyFailed");
        assert_eq!(status(&["retry", &id(1)]), "Pending None");
        assert_eq!(shop.show(&id(1))["replay_credit"], "*");
    }

    fn what_did_not_change_is_told_with_the_reason_and_the_code_1(kind: Kind) {
        let run = two(kind).run(&["hold", &id(1), &id(9), &id(1), "--json"]).exits(1);
        let expected = json!({
            "changed": 1, "unchanged": 1,
            "results": [
                {"dead_letter_id": id(1), "changed": true, "why_not": null},
                {"dead_letter_id": id(9), "changed": false, "why_not": "unknown id"},
            ],
        });
        assert_eq!(run.json(), expected);
    }

    fn a_recovered_row_is_left_alone(kind: Kind) {
        let shop = two(kind);
        shop.run(&["scan", "--until-idle", "--now", LATER]).exits(0);
        let run = shop.run(&["give-up", &id(1)]).exits(1);
        assert!(run.stdout.contains("already recovered"), "{}", run.stdout);
    }

    fn a_filter_tells_the_count_and_needs_a_yes(kind: Kind) {
        let shop = two(kind);
        for unanswered in ["", "  "] {
            let unsure = shop.program(&["give-up", "--reason", "Throttled"]).stdin(unanswered).run().exits(2);
            assert!(unsure.stderr.contains("1 dead letter") && unsure.stderr.contains("--yes"), "{}", unsure.stderr);
            assert_eq!(shop.show(&id(1))["recovery_status"], "Pending");
        }
        let sure = shop.run(&["give-up", "--reason", "Throttled", "--yes", "--json"]).exits(0);
        assert_eq!(sure.json()["changed"], 1);
        assert_eq!(shop.show(&id(1))["recovery_status"], "PermanentlyFailed");
        assert_eq!(shop.show(&id(2))["recovery_status"], "Pending");
    }

    fn a_yes_on_standard_input_confirms_a_filter(kind: Kind) {
        for (verb, becomes) in [("hold", "HoldForReview"), ("retry", "Pending"), ("give-up", "PermanentlyFailed")] {
            for answer in ["y\n", "YES\r\n", " y"] {
                let shop = two(kind);
                let run = shop.program(&[verb, "--reason", "Throttled", "--json"]).stdin(answer).run().exits(0);
                assert_eq!(run.json()["changed"], 1, "{verb} {answer:?}");
                let asked = format!("1 dead letter match the filter\n{verb} all of them? [y/N] ");
                assert!(run.stderr.contains(&asked), "{}", run.stderr);
                assert_eq!(shop.show(&id(1))["recovery_status"], becomes);
                assert_eq!(shop.show(&id(2))["operator_actor"], json!(null));
            }
        }
    }

    fn any_other_answer_on_standard_input_changes_nothing(kind: Kind) {
        let shop = two(kind);
        let (long, cut) = ("y".repeat(5000), format!("y{}no\n", " ".repeat(1023)));
        for verb in ["hold", "retry", "give-up"] {
            let short = [&b"n\n"[..], b"\n", b"no", b"yes please\n", b"\xff\n", b"n\ny\n"];
            for answer in short.into_iter().chain([long.as_bytes(), cut.as_bytes()]) {
                let run = shop.program(&[verb, "--reason", "Throttled"]).stdin(answer).run().exits(1);
                assert!(run.stderr.contains("1 dead letter match the filter"), "{}", run.stderr);
                assert!(run.stderr.contains("nothing was changed") && run.stdout.is_empty(), "{run:?}");
            }
        }
        assert_eq!(shop.show(&id(1))["operator_actor"], json!(null));
    }

    fn a_filter_that_matches_nothing_did_not_hold(kind: Kind) {
        let run = two(kind).run(&["retry", "--status", "Recovered", "--yes", "--json"]).exits(1);
        assert_eq!(run.json(), json!({"changed": 0, "unchanged": 0, "results": []}));
    }

    fn who_did_it_is_recorded_also_without_being_named(kind: Kind) {
        let shop = two(kind);
        shop.run(&["hold", &id(1)]).exits(0);
        assert!(!shop.show(&id(1))["operator_actor"].as_str().unwrap().is_empty());
    }
}

#[test]
fn neither_ids_nor_a_filter_is_refused_and_so_are_both() {
    let shop = two(Kind::Sqlite);
    let empty = shop.run(&["give-up", "--yes"]).exits(2);
    assert!(empty.stderr.contains("empty filter"), "{}", empty.stderr);
    let both = shop.run(&["retry", &id(1), "--reason", "Throttled", "--yes"]).exits(2);
    assert!(both.stderr.contains("not both"), "{}", both.stderr);
    assert_eq!(shop.run(&["list", "--status", "Pending", "--json"]).json_lines().len(), 2);
}
