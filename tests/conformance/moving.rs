//! Moving a row to the dead letters.

use reprieve::model::{Disposition, FailureReason, RecoveryStatus, SourceTable};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::rows::{event, event_row, moving, with};
use crate::harness::{Backend, at, id, inbox_row, instance, outbox_row, perspective_row, source, stream};

on_both_stores! {
    async fn an_outbox_row_leaves_its_table_and_becomes_a_pending_dead_letter(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;

        let moved = store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        assert_eq!(moved.unwrap().dead_letter_id, id(1));
        assert_eq!(store.rows_in("wh_outbox").await, 0);
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.source_table, SourceTable::Outbox);
        assert_eq!(letter.source_id, source(1));
        assert_eq!(letter.stream_id, Some(stream(1)));
        assert_eq!(letter.message_type, "OrderPlaced");
        assert_eq!(letter.destination.as_deref(), Some("orders"));
        assert_eq!(letter.perspective_name, None);
        assert_eq!(serde_json::from_str::<Value>(&letter.metadata).unwrap(), json!({"tenant": "acme", "hop": [1, 2]}));
        assert_eq!(letter.failure_reason, FailureReason(8));
        assert_eq!(letter.error_text.as_deref(), Some("System.TimeoutException: no answer"));
        assert_eq!(letter.attempts_when_dlq, 4);
        assert_eq!(letter.dead_lettered_at, at(10));
        assert_eq!(letter.dead_lettered_by, Some(instance(1)));
        assert_eq!(letter.generation, "g1");
        assert_eq!(letter.source_created_at, Some(at(-3000)));
        assert_eq!(letter.source_position, None);
    }

    async fn attempts_below_zero_do_not_stop_a_move(store: Backend) {
        store.insert("wh_outbox", &with(outbox_row(1), json!({"attempts": -3}))).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap().expect("moved");

        assert_eq!(store.letter(id(1)).await.attempts_when_dlq, 0);
    }

    async fn a_dead_letter_starts_with_nothing_spent_and_due_at_once(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
        assert_eq!(letter.recovery_attempts, 0);
        assert_eq!((letter.last_recovery_at, letter.next_recovery_at, letter.recovered_at), (None, None, None));
        assert!(letter.retried_on_generations.is_empty());
        assert_eq!(letter.operator_disposition, Disposition::None);
        assert_eq!(letter.incarnation, 1);
        assert_eq!(letter.replay_credit, None);
        assert_eq!(letter.deferral, None);
        assert_eq!((letter.policy_errors, letter.policy_error_digest), (0, None));
        assert_eq!(letter.status_note, None);
        assert_eq!(letter.error_fingerprint.map(|digits| digits.len()), Some(16));
        assert_eq!(letter.error_fingerprint_version, Some(1));
    }

    async fn an_inbox_row_keeps_its_body_and_its_columns(store: Backend) {
        store.insert("wh_inbox", &inbox_row(1)).await;

        store.move_to_dead_letters(&moving(SourceTable::Inbox, 1)).await.unwrap();

        assert_eq!(store.rows_in("wh_inbox").await, 0);
        let raw = store.raw_letter(id(1)).await;
        assert_eq!(raw["source_table"], "wh_inbox");
        assert_eq!(raw["message_type"], "InvoiceDue");
        assert_eq!(raw["destination"], Value::Null);
        assert_eq!(raw["envelope"]["event_data"], json!({"invoice": 1, "text": "請求書"}));
        assert_eq!(raw["envelope"]["metadata"], json!({"tenant": "blue"}));
        assert_eq!(raw["source_row"]["handler_name"], "BillingHandler");
        assert_eq!(raw["source_row"]["envelope_type"], "Envelope/2");
        assert_eq!(store.letter(id(1)).await.source_created_at, Some(at(-3000)), "an inbox row's time is received_at");
    }

    async fn a_body_is_stored_once(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        let raw = store.raw_letter(id(1)).await;
        assert_eq!(raw["envelope"]["event_data"], outbox_row(1)["event_data"]);
        assert_eq!(raw["envelope"]["metadata"], outbox_row(1)["metadata"]);
        let source_row = raw["source_row"].as_object().unwrap();
        assert!(!source_row.contains_key("event_data") && !source_row.contains_key("metadata"));
        for column in ["message_id", "envelope_type", "scope", "is_event", "partition_number", "published_at"] {
            assert!(source_row.contains_key(column), "source_row keeps {column}");
        }
    }

    async fn a_perspective_row_names_its_event_and_takes_its_place(store: Backend) {
        store.insert("wh_event_store", &event_row(1)).await;
        store.insert("wh_perspective_events", &perspective_row(1)).await;

        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap();

        assert_eq!(store.rows_in("wh_perspective_events").await, 0);
        let letter = store.letter(id(1)).await;
        assert_eq!(letter.message_type, "perspective_event");
        assert_eq!(letter.perspective_name.as_deref(), Some("orders-by-customer"));
        assert_eq!(letter.attempts_when_dlq, 11);
        assert_eq!(letter.source_created_at, Some(at(-3000)));
        assert_eq!(letter.source_position, Some(101));
        let envelope = &store.raw_letter(id(1)).await["envelope"];
        assert_eq!(envelope["event_id"], json!(event(1)));
        assert_eq!(envelope["perspective_name"], "orders-by-customer");
    }

    async fn a_perspective_row_whose_event_is_gone_moves_without_a_place(store: Backend) {
        store.insert("wh_perspective_events", &perspective_row(1)).await;

        assert!(store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap().is_some());

        assert_eq!(store.letter(id(1)).await.source_position, None);
    }

    async fn moving_a_row_that_is_gone_inserts_nothing(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        let mut again = moving(SourceTable::Outbox, 1);
        again.dead_letter_id = id(2);
        assert_eq!(store.move_to_dead_letters(&again).await.unwrap(), None);
        assert_eq!(store.move_to_dead_letters(&moving(SourceTable::Inbox, 7)).await.unwrap(), None);

        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
    }

    async fn a_row_is_moved_whoever_holds_its_lease(store: Backend) {
        let leased = with(outbox_row(1), json!({
            "instance_id": instance(5), "lease_expiry": "2099-01-01T00:00:00.000000Z",
        }));
        store.insert("wh_outbox", &leased).await;

        assert!(store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap().is_some());
    }

    async fn an_all_zero_stream_of_a_message_is_no_stream(store: Backend) {
        let zero = json!({"stream_id": Uuid::nil()});
        store.insert("wh_outbox", &with(outbox_row(1), zero.clone())).await;
        store.insert("wh_inbox", &with(inbox_row(2), zero)).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        store.move_to_dead_letters(&moving(SourceTable::Inbox, 2)).await.unwrap();

        assert_eq!(store.letter(id(1)).await.stream_id, None);
        assert_eq!(store.letter(id(2)).await.stream_id, None);
    }

    async fn an_all_zero_stream_of_a_perspective_is_kept_and_counts_as_none(store: Backend) {
        store.insert("wh_perspective_events", &with(perspective_row(1), json!({"stream_id": Uuid::nil()}))).await;

        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!(letter.stream_id, Some(Uuid::nil()));
        assert_eq!(letter.stream(), None);
    }

    async fn columns_that_the_application_added_come_along(store: Backend) {
        store.execute("alter table wh_outbox add column tenant text").await;
        store.execute("alter table wh_outbox add column priority integer not null default 3").await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({"tenant": "acme", "priority": 9}))).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        let raw = store.raw_letter(id(1)).await;
        assert_eq!(raw["source_row"]["tenant"], "acme");
        assert_eq!(raw["source_row"]["priority"], 9);
    }

    async fn a_move_without_text_and_instance_leaves_these_empty(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        let mut request = moving(SourceTable::Outbox, 1);
        (request.error_text, request.instance_id) = (None, None);

        store.move_to_dead_letters(&request).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.error_text, letter.dead_lettered_by), (None, None));
        assert_eq!((letter.error_fingerprint, letter.error_fingerprint_version), (None, None));
    }

    async fn a_reason_without_a_name_is_kept(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        let mut request = moving(SourceTable::Outbox, 1);
        request.failure_reason = FailureReason(4711);

        store.move_to_dead_letters(&request).await.unwrap();

        assert_eq!(store.letter(id(1)).await.failure_reason, FailureReason(4711));
    }

    async fn columns_that_the_application_added_to_a_perspective_return(store: Backend) {
        let kind = if store.is_postgres() { "jsonb" } else { "text" };
        store.execute(&format!("alter table wh_perspective_events add column metadata {kind}")).await;
        store.insert("wh_event_store", &crate::harness::rows::event_row(1)).await;
        let row = with(perspective_row(1), json!({"metadata": {"tenant": "acme"}}));
        store.insert("wh_perspective_events", &row).await;
        store.insert("wh_perspective_events", &with(perspective_row(2), json!({"metadata": null}))).await;

        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap();
        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 2)).await.unwrap();

        assert_eq!(store.raw_letter(id(1)).await["metadata"], json!({"tenant": "acme"}));
        assert_eq!(store.raw_letter(id(2)).await["metadata"], json!({}));
        assert!(store.recover_dead_letter(id(1), Some(at(100))).await.unwrap());
        let back = store.source_row("wh_perspective_events", source(1)).await.unwrap();
        assert_eq!(back["metadata"], json!({"tenant": "acme"}));
    }
}
