//! The retention of recorded decisions.

use std::time::Duration;

use reprieve::store::Forget;
use serde_json::json;

use crate::harness::{Backend, at, id, time_text};

const KEEP: Duration = Duration::from_secs(1000);

/// One pass in chunks, at the time 2000; how many decisions it deleted.
async fn forget(store: &Backend) -> u64 {
    let (mut deleted, mut after) = (0, None::<String>);
    loop {
        let request = Forget { keep: KEEP, after: after.as_deref(), now: Some(at(2000)) };
        let forgotten = store.shared().forget_decisions(&request).await.unwrap();
        deleted += forgotten.decisions;
        after = forgotten.next;
        if after.is_none() {
            return deleted;
        }
    }
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
    let rows = store.raw.query("select decision_id from wh_dead_letter_decisions order by decision_id").await;
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
