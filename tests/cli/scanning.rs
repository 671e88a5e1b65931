//! `scan` and `sweep`.

use serde_json::json;

use super::shop::{Kind, LATER, Shop, id, letter};

in_both_shops! {
    fn a_scan_prints_what_became_of_the_rows(kind: Kind) {
        let shop = kind.shop_with(&[
            letter(1, json!({})),
            letter(2, json!({"failure_reason": "ValidationError"})),
            letter(3, json!({"recovery_attempts": 3})),
            letter(4, json!({"failure_reason": "MaxAttemptsExceeded"})),
        ]);
        let counts = shop.run(&["scan", "--until-idle", "--json", "--now", LATER]).exits(0).json();
        let expected = json!({
            "scanned": 4, "recovered": 1, "held": 1, "permanently_failed": 1, "deferred": 1, "skipped": 0, "blocked": 0,
            "failed": 0, "policy_errors": 0,
        });
        assert_eq!(counts, expected);
        assert_eq!(shop.show(&id(4))["next_recovery_at"], "2026-01-01T06:00:00Z");
    }

    fn a_scan_never_sweeps(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"failure_reason": "ValidationError"}))]);
        shop.run(&["scan", "--until-idle", "--now", LATER]).exits(0);
        shop.run(&["scan", "--until-idle", "--now", LATER, "--generation", "shop-9"]).exits(0);
        assert_eq!(shop.show(&id(1))["recovery_status"], "HoldForReview");
    }

    fn a_sweep_reaches_held_rows_once_and_the_next_scan_tries_them(kind: Kind) {
        let shop = kind.shop_with(&[letter(1, json!({"failure_reason": "ValidationError", "generation": "shop-1"}))]);
        shop.run(&["scan", "--now", LATER]).exits(0);
        let sweep = ["sweep", "--generation", "shop-2", "--json", "--now", LATER];
        assert_eq!(shop.run(&sweep).exits(0).json(), json!({"generation": "shop-2", "scheduled": 1}));
        assert_eq!(shop.run(&sweep).exits(0).json(), json!({"generation": "shop-2", "scheduled": 0}));
        let counts = shop.run(&["scan", "--json", "--generation", "shop-2", "--now", LATER]).exits(0).json();
        assert_eq!(counts["recovered"], 1);
    }
}

#[test]
fn without_a_generation_nothing_is_swept() {
    let run = Shop::new().run(&["sweep"]).exits(1);
    assert!(run.stderr.contains("--generation"), "{}", run.stderr);
}

#[test]
fn recovery_that_is_switched_off_neither_scans_nor_sweeps() {
    let shop = Shop::new();
    for arguments in [vec!["scan"], vec!["sweep", "--generation", "g"]] {
        let run = shop.program(&arguments).env("REPRIEVE_RECOVERY__ENABLED", "false").run().exits(1);
        assert!(run.stderr.contains("enabled"), "{}", run.stderr);
    }
}

#[test]
fn a_policy_that_cannot_be_loaded_is_refused_with_its_name() {
    let shop = Shop::new();
    std::fs::write(shop.path().join("notes.txt"), "no component").unwrap();
    for policy in ["notes.txt", "gone.wasm"] {
        let run = shop.run(&["scan", "--policy", policy]).exits(2);
        assert!(run.stderr.contains(policy), "{}", run.stderr);
    }
}
