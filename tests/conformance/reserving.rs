//! A generation's free attempt belongs to its hosts for an hour.

use serde_json::{Value, json};

use crate::harness::{Backend, at, claim_after, id, time_text};

const HOUR: i64 = 3600;

async fn credited(store: &Backend, n: u64, credit: &str) {
    let changes =
        json!({"replay_credit": credit, "replay_credit_at": time_text(at(0)), "next_recovery_at": time_text(at(0))});
    store.dead(n, changes).await;
}

async fn claimed_by(store: &Backend, generation: &str, seconds: i64) -> Vec<uuid::Uuid> {
    let claimed = claim_after(&**store, generation, 10, None, at(seconds)).await;
    store.release(claimed.batch_id).await.unwrap();
    claimed.ids()
}

on_both_stores! {
    async fn an_old_host_leaves_the_new_generations_rows_for_an_hour(store: Backend) {
        credited(&store, 1, "g2").await;

        assert!(claimed_by(&store, "g1", 10).await.is_empty());
        assert!(claimed_by(&store, "g1", HOUR - 1).await.is_empty());
        assert_eq!(claimed_by(&store, "g2", 10).await, [id(1)]);
        assert_eq!(claimed_by(&store, "g1", HOUR).await, [id(1)]);
    }

    async fn an_operators_credit_is_for_any_host(store: Backend) {
        credited(&store, 1, "*").await;

        assert_eq!(claimed_by(&store, "g1", 10).await, [id(1)]);
        assert_eq!(claimed_by(&store, "g2", 10).await, [id(1)]);
    }

    async fn rows_behind_a_reserved_one_are_claimed(store: Backend) {
        credited(&store, 1, "g2").await;
        store.dead(2, Value::Object(Default::default())).await;

        assert_eq!(claimed_by(&store, "g1", 10).await, [id(2)]);
    }

    async fn a_reserved_row_is_not_due_for_an_old_host(store: Backend) {
        credited(&store, 1, "g2").await;

        assert!(!store.due("g1", Some(at(10))).await.unwrap().due_now);
        assert!(store.due("g2", Some(at(10))).await.unwrap().due_now);
        assert!(store.due("g1", Some(at(HOUR))).await.unwrap().due_now);
    }
}
