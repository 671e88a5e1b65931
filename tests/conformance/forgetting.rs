//! The retention of settled dead letters and of recorded decisions.

use std::time::Duration;

use reprieve::store::{Forget, KeepSettled};
use serde_json::json;

use crate::harness::{Backend, at, id, source, time_text};

const KEEP: Duration = Duration::from_secs(1000);

/// One pass in chunks, at the time 2000; how many decisions it deleted.
async fn forget(store: &Backend) -> u64 {
    let (mut deleted, mut after) = (0, None::<String>);
    loop {
        let request = Forget { keep: KEEP, after: after.as_deref(), now: Some(at(2000)) };
        let forgotten = store.shared().forget_decisions(&request).await.unwrap();
        deleted += forgotten.rows;
        after = forgotten.next;
        if after.is_none() {
            return deleted;
        }
    }
}

/// One pass over the dead letters in chunks, at the time 2000; how many it deleted.
async fn forget_settled(store: &Backend, keep: KeepSettled) -> u64 {
    let (mut deleted, mut after) = (0, None::<String>);
    loop {
        let request = Forget { keep, after: after.as_deref(), now: Some(at(2000)) };
        let forgotten = store.shared().forget_settled(&request).await.unwrap();
        deleted += forgotten.rows;
        after = forgotten.next;
        if after.is_none() {
            return deleted;
        }
    }
}

const KEEP_RECOVERED: KeepSettled = KeepSettled { recovered: Some(KEEP), permanently_failed: None };
const KEEP_FAILED: KeepSettled = KeepSettled { recovered: None, permanently_failed: Some(KEEP) };

/// A dead letter that was recovered at that time.
async fn recovered(store: &Backend, letter: u64, seconds: i64) {
    store.dead(letter, json!({"recovery_status": 3, "recovered_at": time_text(at(seconds))})).await;
}

async fn letters(store: &Backend) -> Vec<String> {
    let rows = store.query("select dead_letter_id from wh_dead_letters order by dead_letter_id").await;
    rows.into_iter().map(|row| row["dead_letter_id"].as_str().unwrap().to_owned()).collect()
}

/// Records a decision about a dead letter.
async fn decided(store: &Backend, decision: u64, letter: u64, seconds: i64) {
    let decided = json!({
        "decision_id": id(decision).to_string(), "dead_letter_id": id(letter).to_string(),
        "decided_at": time_text(at(seconds)), "decision": "recover",
    });
    store.insert("wh_dead_letter_decisions", &decided).await;
}

async fn kept(store: &Backend) -> Vec<String> {
    let rows = store.query("select decision_id from wh_dead_letter_decisions order by decision_id").await;
    rows.into_iter().map(|row| row["decision_id"].as_str().unwrap().to_owned()).collect()
}

on_both_stores! {
    async fn old_decisions_go_when_their_dead_letter_is_settled_or_gone(store: Backend) {
        store.dead(1, json!({"recovery_status": 3, "recovered_at": time_text(at(5))})).await;
        store.dead(2, json!({"recovery_status": 4})).await;
        for (decision, letter) in [(1, 1), (2, 2), (3, 999)] {
            decided(&store, decision, letter, 500).await;
            decided(&store, 10 + decision, letter, 999).await;
        }

        assert_eq!(forget(&store).await, 6);
        assert_eq!(forget(&store).await, 0);
    }

    async fn a_history_stays_whole_until_the_newest_decision_is_old(store: Backend) {
        store.dead(1, json!({"recovery_status": 3, "recovered_at": time_text(at(1000))})).await;
        decided(&store, 1, 1, 1).await;
        decided(&store, 2, 1, 1000).await;

        assert_eq!(forget(&store).await, 0);
        assert_eq!(kept(&store).await, [1, 2].map(|n| id(n).to_string()));
    }

    async fn what_is_open_keeps_its_history(store: Backend) {
        for status in 0..=2 {
            store.dead(1 + status, json!({ "recovery_status": status })).await;
            decided(&store, 1 + status, 1 + status, 1).await;
        }

        assert_eq!(forget(&store).await, 0);
        assert_eq!(kept(&store).await.len(), 3);
    }

    async fn a_recovered_dead_letter_goes_when_its_retention_is_over_and_not_before(store: Backend) {
        recovered(&store, 1, 999).await;
        recovered(&store, 2, 1000).await;

        assert_eq!(forget_settled(&store, KEEP_FAILED).await, 0);
        assert_eq!(forget_settled(&store, KEEP_RECOVERED).await, 1);
        assert_eq!(letters(&store).await, [id(2).to_string()]);
    }

    async fn a_later_death_stays_as_long_as_an_earlier_one_that_was_given_up(store: Backend) {
        store.dead(1, json!({"recovery_status": 4, "dead_lettered_at": time_text(at(1))})).await;
        let again = json!({
            "source_id": source(1), "incarnation": 2, "recovery_status": 3, "recovered_at": time_text(at(5)),
        });
        store.dead(2, again).await;

        assert_eq!(forget_settled(&store, KEEP_RECOVERED).await, 0);
        let keep = KeepSettled { recovered: Some(KEEP), permanently_failed: Some(KEEP) };
        assert_eq!(forget_settled(&store, keep).await, 1, "the earlier one goes first");
        assert_eq!(forget_settled(&store, keep).await, 1);
    }

    async fn a_permanently_failed_one_goes_so_long_after_the_last_that_is_known_of_it(store: Backend) {
        let failed = |died: i64| json!({"recovery_status": 4, "dead_lettered_at": time_text(at(died))});
        store.dead(1, failed(999)).await;
        store.dead(2, failed(1000)).await;
        store.dead(3, failed(1)).await;
        decided(&store, 1, 3, 1000).await;
        let mut tried = failed(1);
        tried["last_recovery_at"] = json!(time_text(at(1000)));
        store.dead(4, tried).await;

        assert_eq!(forget_settled(&store, KEEP_RECOVERED).await, 0);
        assert_eq!(forget_settled(&store, KEEP_FAILED).await, 1);
        assert_eq!(letters(&store).await, [2, 3, 4].map(|n| id(n).to_string()));
    }

    async fn what_is_open_or_held_is_never_deleted_nor_is_what_is_known_of_its_message(store: Backend) {
        for status in 0..=2 {
            store.dead(1 + status, json!({ "recovery_status": status, "dead_lettered_at": time_text(at(1)) })).await;
        }
        recovered(&store, 10, 1).await;
        let source = store.letter(id(10)).await.source_id.to_string();
        store.dead(11, json!({"source_id": source, "incarnation": 2, "recovery_status": 2})).await;

        let keep = KeepSettled { recovered: Some(KEEP), permanently_failed: Some(KEEP) };
        assert_eq!(forget_settled(&store, keep).await, 0);
        assert_eq!(letters(&store).await.len(), 5);
    }

    async fn a_pass_over_the_dead_letters_reaches_what_lies_behind_a_chunk_that_stays(store: Backend) {
        for n in 0..1005 {
            recovered(&store, n, if n < 1001 { 1500 } else { 1 }).await;
        }

        assert_eq!(forget_settled(&store, KEEP_RECOVERED).await, 4);
        assert_eq!(letters(&store).await.len(), 1001);
    }

    async fn a_pass_reaches_what_lies_behind_a_chunk_that_stays(store: Backend) {
        store.dead(1, json!({})).await;
        for n in 0..1500 {
            decided(&store, n, 1, 1).await;
        }
        for n in 1500..1510 {
            decided(&store, n, 999, 1).await;
        }

        assert_eq!(forget(&store).await, 10);
        assert_eq!(kept(&store).await.len(), 1500);
    }
}
