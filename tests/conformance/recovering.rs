//! Re-emitting one row by `recover_dead_letter`.

use reprieve::model::{RecoveryStatus, SourceTable};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::rows::{event, event_row, moving, with};
use crate::harness::{Backend, at, dead_letter, id, inbox_row, outbox_row, perspective_row, source};

async fn die_and_return(store: &Backend, table: SourceTable, row: &Value) -> serde_json::Map<String, Value> {
    store.insert(table.name(), row).await;
    store.move_to_dead_letters(&moving(table, 1)).await.unwrap().expect("moved");
    assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());
    store.source_row(table.name(), source(1)).await.expect("the row is back under its own id")
}

/// Every column is back but these, which start afresh.
fn assert_restored(back: &serde_json::Map<String, Value>, row: &Value, afresh: &Value) {
    for (column, value) in back {
        let expected = afresh.get(column).unwrap_or(&row[column]);
        assert_eq!(value, expected, "{column}");
    }
}

on_both_stores! {
    async fn an_outbox_row_returns_with_every_column(store: Backend) {
        let back = die_and_return(&store, SourceTable::Outbox, &outbox_row(1)).await;

        assert_restored(&back, &outbox_row(1), &json!({
            "attempts": 0, "status": 1, "failure_reason": 99, "error": null, "instance_id": null, "lease_expiry": null,
            "scheduled_for": null, "published_at": null, "processed_at": null,
        }));
    }

    async fn an_inbox_row_returns_with_every_column(store: Backend) {
        let back = die_and_return(&store, SourceTable::Inbox, &inbox_row(1)).await;

        assert_restored(&back, &inbox_row(1), &json!({
            "attempts": 0, "status": 1, "failure_reason": 99, "error": null, "instance_id": null, "lease_expiry": null,
            "scheduled_for": null, "processed_at": null,
        }));
    }

    async fn a_perspective_row_returns_while_its_event_exists(store: Backend) {
        store.insert("wh_event_store", &event_row(1)).await;

        let back = die_and_return(&store, SourceTable::PerspectiveEvents, &perspective_row(1)).await;

        assert_restored(&back, &perspective_row(1), &json!({
            "attempts": 0, "status": 0, "failure_reason": null, "error": null, "instance_id": null, "lease_expiry": null,
            "scheduled_for": null, "claimed_at": null, "processed_at": null,
        }));
    }

    async fn a_row_is_recovered_once(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());
        assert!(!store.recover_dead_letter(id(1), Some(at(61))).await.unwrap());

        assert_eq!(store.rows_in("wh_outbox").await, 1);
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::Recovered);
        assert_eq!((letter.recovered_at, letter.last_recovery_at), (Some(at(60)), Some(at(60))));
        assert_eq!(letter.next_recovery_at, None);
        assert_eq!(letter.recovery_attempts, 1);
        assert_eq!(letter.retried_on_generations, ["g1"]);
    }

    async fn its_own_generation_is_noted_once(store: Backend) {
        store.dead(1, json!({"retried_on_generations": ["g1", "g0"]})).await;

        store.recover_dead_letter(id(1), Some(at(60))).await.unwrap();

        assert_eq!(store.letter(id(1)).await.retried_on_generations, ["g1", "g0"]);
    }

    async fn a_zero_stream_returns_as_none(store: Backend) {
        let of_zero = with(outbox_row(1), json!({"stream_id": Uuid::nil()}));
        let back = die_and_return(&store, SourceTable::Outbox, &of_zero).await;
        assert_eq!(back["stream_id"], Value::Null);

        store.dead(2, json!({"stream_id": Uuid::nil()})).await;
        assert!(store.recover_dead_letter(id(2), Some(at(60))).await.unwrap());
        assert_eq!(store.source_row("wh_outbox", source(2)).await.unwrap()["stream_id"], Value::Null);
    }

    async fn columns_of_the_application_return_and_new_ones_take_their_default(store: Backend) {
        store.execute("alter table wh_outbox add column tenant text").await;
        store.execute("alter table wh_outbox add column \"Odd Name\" integer").await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({"tenant": "a'c\"me", "\"Odd Name\"": 9}))).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        store.execute("alter table wh_outbox add column region text not null default 'eu'").await;

        assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let back = store.source_row("wh_outbox", source(1)).await.unwrap();
        assert_eq!((&back["tenant"], &back["Odd Name"], &back["region"]), (&json!("a'c\"me"), &json!(9), &json!("eu")));
    }

    async fn a_column_that_was_dropped_meanwhile_is_left_out(store: Backend) {
        store.execute("alter table wh_outbox add column tenant text").await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({"tenant": "acme"}))).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        store.execute("alter table wh_outbox drop column tenant").await;

        assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());
    }

    async fn generated_columns_are_computed_anew(store: Backend) {
        let kind = if store.is_postgres() { "stored" } else { "virtual" };
        store.execute(&format!(
            "alter table wh_outbox add column doubled integer generated always as (partition_number * 2) {kind}"
        )).await;

        let back = die_and_return(&store, SourceTable::Outbox, &outbox_row(1)).await;

        assert_eq!(back["doubled"], 6);
    }

    async fn a_dead_letter_without_source_row_is_built_from_what_there_is(store: Backend) {
        let common = json!({"stream_id": crate::harness::stream(4), "source_row": null});
        store.dead(1, common.clone()).await;
        let inbox = with(common, json!({"source_table": "wh_inbox", "destination": null}));
        store.dead(2, inbox).await;

        assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());
        assert!(store.recover_dead_letter(id(2), Some(at(60))).await.unwrap());

        let outbox = store.source_row("wh_outbox", source(1)).await.unwrap();
        assert_eq!((&outbox["destination"], &outbox["message_type"]), (&json!("orders"), &json!("OrderPlaced")));
        assert_eq!((&outbox["event_data"], &outbox["metadata"]), (&json!({"order": 1}), &json!({"tenant": "acme"})));
        assert_eq!((&outbox["stream_id"], &outbox["is_event"]), (&json!(crate::harness::stream(4)), &json!(false)));
        assert_eq!((&outbox["status"], &outbox["attempts"]), (&json!(1), &json!(0)));
        assert_eq!(outbox["failure_reason"], 99);
        let inbox = store.source_row("wh_inbox", source(2)).await.unwrap();
        assert_eq!((&inbox["handler_name"], &inbox["event_data"]), (&json!("recovered"), &json!({"order": 2})));
    }

    async fn a_perspective_dead_letter_without_source_row_is_built_too(store: Backend) {
        store.insert("wh_event_store", &event_row(1)).await;
        store.dead(1, json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event", "destination": null,
            "stream_id": crate::harness::stream(1), "perspective_name": "totals",
            "envelope": {"event_id": event(1), "perspective_name": "totals"},
        })).await;

        assert!(store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let back = store.source_row("wh_perspective_events", source(1)).await.unwrap();
        assert_eq!((&back["event_id"], &back["perspective_name"]), (&json!(event(1)), &json!("totals")));
        assert_eq!((&back["stream_id"], &back["attempts"]), (&json!(crate::harness::stream(1)), &json!(0)));
    }
}
