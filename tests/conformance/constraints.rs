//! What the tables refuse, whoever writes.

use serde_json::{Value, json};

use crate::harness::rows::with;
use crate::harness::{Backend, at, dead_letter, id, time_text};

async fn refused(store: &Backend, changes: Value) {
    let sql = store.insert_sql("wh_dead_letters", &with(dead_letter(1), changes.clone()));
    assert!(store.raw.try_execute(&sql).await.is_err(), "{changes} is refused");
    assert_eq!(store.rows_in("wh_dead_letters").await, 0);
}

on_both_stores! {
    async fn a_row_is_recovered_exactly_when_it_has_a_time_of_recovery(store: Backend) {
        refused(&store, json!({"recovery_status": 3})).await;
        refused(&store, json!({"recovery_status": 0, "recovered_at": time_text(at(5))})).await;
        refused(&store, json!({"recovery_status": 2, "recovered_at": time_text(at(5))})).await;
    }

    async fn numbers_outside_their_range_are_refused(store: Backend) {
        refused(&store, json!({"recovery_status": 5})).await;
        refused(&store, json!({"recovery_status": -1})).await;
        refused(&store, json!({"recovery_attempts": -1})).await;
    }

    async fn a_dead_letter_comes_from_one_of_three_tables(store: Backend) {
        refused(&store, json!({"source_table": "wh_event_store"})).await;
        refused(&store, json!({"source_table": ""})).await;
    }

    async fn an_id_is_used_once(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        let same = with(dead_letter(2), json!({"dead_letter_id": id(1)}));
        store.refuses(&store.insert_sql("wh_dead_letters", &same)).await;
    }

    async fn an_update_is_held_to_the_same(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        store.refuses("update wh_dead_letters set recovery_status = 3").await;
        store.refuses("update wh_dead_letters set recovery_attempts = -5").await;
    }

    async fn an_application_may_leave_out_whatever_has_a_default(store: Backend) {
        let row = json!({
            "dead_letter_id": id(1), "source_table": "wh_outbox", "source_id": id(9), "message_type": "T",
            "envelope": {"event_data": {}, "metadata": {}}, "failure_reason": 99, "attempts_when_dlq": 0,
            "dead_lettered_at": time_text(at(1)), "generation": "g1",
        });
        store.insert("wh_dead_letters", &row).await;

        let raw = store.raw_letter(id(1)).await;
        assert_eq!((&raw["metadata"], &raw["retried_on_generations"]), (&json!({}), &json!([])));
        assert_eq!((&raw["recovery_status"], &raw["recovery_attempts"]), (&json!(0), &json!(0)));
        assert_eq!((&raw["operator_disposition"], &raw["incarnation"]), (&json!(0), &json!(1)));
        assert_eq!(raw["policy_errors"], 0);
    }

    async fn the_work_tables_have_their_defaults(store: Backend) {
        let outbox = json!({"message_id": id(1), "message_type": "T", "event_data": {}, "metadata": {}});
        store.insert("wh_outbox", &outbox).await;
        store.insert("wh_inbox", &with(outbox, json!({"handler_name": "h"}))).await;
        let event = json!({"event_work_id": id(1), "stream_id": id(2), "perspective_name": "p", "event_id": id(3)});
        store.insert("wh_perspective_events", &event).await;

        for table in ["wh_outbox", "wh_inbox"] {
            let row = store.source_row(table, id(1)).await.unwrap();
            assert_eq!((&row["status"], &row["attempts"], &row["failure_reason"]), (&json!(1), &json!(0), &json!(99)));
            assert_eq!(row["is_event"], json!(false));
        }
        let row = store.source_row("wh_perspective_events", id(1)).await.unwrap();
        assert_eq!((&row["status"], &row["attempts"], &row["failure_reason"]), (&json!(0), &json!(0), &Value::Null));
        let same = with(event, json!({"event_work_id": id(7)}));
        store.refuses(&store.insert_sql("wh_perspective_events", &same)).await;
    }
}
