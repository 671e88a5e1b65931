//! Creating the schema, also beside tables that exist already.

use reprieve::model::SourceTable;
use reprieve::store::StoreError;
use serde_json::json;

use crate::harness::rows::moving;
use crate::harness::{Backend, at, dead_letter, id, source, time_text};

macro_rules! on_both_empty {
    ($( async fn $name:ident($store:ident: $kind:ty) $body:block )+) => { $(
        async fn $name($store: $kind) $body

        mod $name {
            use crate::harness::{Backend, backend::run};

            #[test]
            fn on_sqlite() {
                run(async { super::$name(Backend::empty_sqlite().await).await });
            }

            #[test]
            fn on_postgres() {
                let url = crate::harness::empty_database();
                run(async { super::$name(Backend::at(url, None).await).await });
            }
        }
    )+ };
}

/// The tables as an application of an older version made them, with a column of its own and rows in them.
pub async fn older_tables(store: &Backend) {
    let (uuid, json, time) =
        if store.is_postgres() { ("uuid", "jsonb", "timestamptz") } else { ("text", "text", "text") };
    let list = if store.is_postgres() { "text[] not null default '{}'" } else { "text not null default '[]'" };
    store
        .execute(&format!(
            "create table wh_outbox (message_id {uuid} primary key, destination text, message_type text not null,
           event_data {json} not null, metadata {json} not null, stream_id {uuid},
           is_event boolean not null default false,
           status integer not null default 1, attempts integer not null default 0, error text, tenant text,
           created_at {time} not null default current_timestamp);
         create table wh_event_store (event_id {uuid} primary key, stream_id {uuid} not null, event_type text not null,
           event_data {json} not null, metadata {json} not null);
         create table wh_service_instances (instance_id {uuid} primary key, service_name text not null,
           host_name text not null, process_id integer not null, started_at {time} not null,
           last_heartbeat_at {time} not null);
         create table wh_dead_letters (dead_letter_id {uuid} primary key, source_table text not null,
           source_id {uuid} not null, stream_id {uuid}, message_type text not null, destination text,
           perspective_name text, envelope {json} not null, metadata {json} not null default '{{}}',
           failure_reason integer not null, error_text text, attempts_when_dlq integer not null,
           dead_lettered_at {time} not null default current_timestamp, dead_lettered_by {uuid},
           recovery_status integer not null default 0, recovery_attempts integer not null default 0,
           last_recovery_at {time}, next_recovery_at {time}, recovered_at {time}, generation text not null,
           retried_on_generations {list}, operator_disposition integer not null default 0, operator_notes text,
           error_fingerprint varchar(16), error_fingerprint_version smallint, colour text)"
        ))
        .await;
    store
        .insert(
            "wh_outbox",
            &json!({
                "message_id": source(1), "destination": "orders", "message_type": "OrderPlaced", "event_data": {"a": 1},
                "metadata": {}, "tenant": "acme", "created_at": time_text(at(-50)),
            }),
        )
        .await;
    store.dead(2, json!({"colour": "blue"})).await;
}

on_both_empty! {
    async fn an_empty_database_has_no_schema_and_takes_it(store: Backend) {
        assert!(matches!(store.check_schema().await, Err(StoreError::NotMigrated { .. })));

        let applied = store.migrate(false).await.unwrap();

        assert!(applied.len() >= 3, "{applied:?}");
        store.check_schema().await.unwrap();
        for table in ["wh_dead_letters", "wh_recovery_batches", "wh_dead_letter_decisions", "wh_outbox", "wh_inbox",
            "wh_perspective_events", "wh_event_store", "wh_service_instances"] {
            assert_eq!(store.rows_in(table).await, 0);
        }
    }

    async fn migrating_again_changes_nothing(store: Backend) {
        store.migrate(false).await.unwrap();
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.another().await.migrate(false).await.unwrap(), Vec::<String>::new());

        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
    }

    async fn tables_of_the_application_are_kept_with_their_rows(store: Backend) {
        older_tables(&store).await;

        store.migrate(false).await.unwrap();

        store.check_schema().await.unwrap();
        assert_eq!(store.source_row("wh_outbox", source(1)).await.unwrap()["tenant"], "acme");
        assert_eq!(store.raw_letter(id(2)).await["colour"], "blue");
        assert_eq!(store.letter(id(2)).await.incarnation, 1);
        assert!(store.recover_dead_letter(id(2), Some(at(60))).await.unwrap());
        assert!(store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap().is_some());
        assert_eq!(store.raw_letter(id(1)).await["source_row"]["tenant"], "acme");
        assert!(store.recover_dead_letter(id(1), Some(at(70))).await.unwrap());
        assert_eq!(store.source_row("wh_outbox", source(1)).await.unwrap()["tenant"], "acme");
    }

    async fn each_table_of_the_application_gets_the_columns_that_it_lacks(store: Backend) {
        older_tables(&store).await;

        store.migrate(false).await.unwrap();

        for columns in [
            "commit_sequence, created_at from wh_event_store",
            "metadata from wh_service_instances",
            "envelope_type, scope, partition_number, instance_id, lease_expiry, failure_reason, scheduled_for,
             published_at, processed_at from wh_outbox",
            "source_row, source_created_at, source_position, replay_credit, replay_credit_at, deferral, policy_errors,
             policy_error_digest, status_note, operator_actor, incarnation from wh_dead_letters",
        ] {
            store.execute(&format!("select {columns}")).await;
        }
    }

    async fn old_rows_that_break_a_rule_do_not_stop_it(store: Backend) {
        older_tables(&store).await;
        store.dead(3, json!({"recovery_status": 3})).await;
        store.dead(4, json!({"source_table": "elsewhere"})).await;
        store.dead(5, json!({"recovery_attempts": -1})).await;

        store.migrate(false).await.unwrap();

        assert_eq!(store.rows_in("wh_dead_letters").await, 4);
        assert!(store.recover_dead_letter(id(2), Some(at(60))).await.unwrap());
        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new());
    }

    async fn two_hosts_may_migrate_at_once(store: Backend) {
        let other = store.another().await;

        let (one, two) = tokio::join!(store.migrate(false), other.migrate(false));

        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(!one.is_empty() || !two.is_empty());
        store.check_schema().await.unwrap();
        assert_eq!(other.migrate(false).await.unwrap(), Vec::<String>::new());
    }
}
