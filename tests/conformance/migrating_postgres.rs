//! Creating the schema on a PostgreSQL server that others use at the same time.

use reprieve::store::StoreError;
use serde_json::json;

use super::migrating::older_tables;
use crate::harness::{Backend, backend, id, outbox_row};

#[test]
fn an_index_that_was_left_invalid_is_rebuilt() {
    backend::on_postgres(async |store| {
        store.execute(
            "update pg_index set indisvalid = false where indrelid = 'wh_dead_letters'::regclass and not indisprimary",
        ).await;
        // As after a crash in the middle of it: the migration is not recorded.
        store.execute("delete from reprieve_migrations where name like '%index%'").await;

        assert!(!store.migrate(false).await.unwrap().is_empty());

        let invalid =
            "select count(*) as n from pg_index where indrelid = 'wh_dead_letters'::regclass and not indisvalid";
        assert_eq!(store.value(invalid).await, json!(0));
    });
}

#[test]
fn functions_of_an_earlier_host_are_replaced_and_those_of_a_later_one_stay() {
    backend::on_postgres(async |store| {
        let other = "create or replace function reprieve_release(p_batch_id uuid) returns void language sql as ''";
        let is_other = "select prosrc = '' as it from pg_proc where proname = 'reprieve_release'";
        let recorded = |number| format!("update reprieve_migrations set number = {number} where name = 'functions'");

        store.execute(other).await;
        store.execute(&recorded(28)).await;
        assert!(matches!(store.check_schema().await, Err(StoreError::NotMigrated { .. })));
        assert_eq!(store.migrate(false).await.unwrap(), ["functions"]);
        assert_eq!(store.value(is_other).await, json!(false));

        store.execute(other).await;
        store.execute("delete from reprieve_migrations where number = 28").await;
        store.execute(&recorded(1_000_000)).await;
        store.check_schema().await.unwrap();
        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new());
        assert_eq!(store.value(is_other).await, json!(true));
    });
}

#[test]
fn functions_of_a_later_host_that_were_replaced_are_recorded_as_what_they_are() {
    backend::on_postgres(async |store| {
        let recorded = "select string_agg(number::text, ',') as n from reprieve_migrations where name = 'functions'";
        let own = store.value(recorded).await;
        store.execute("update reprieve_migrations set number = 1000000 where name = 'functions'").await;
        store
            .execute(
                "drop function mark_dead_letter_holding(uuid);
                 create function mark_dead_letter_holding(p_dead_letter_id uuid) returns void language sql as ''",
            )
            .await;

        assert_eq!(store.migrate(true).await.unwrap(), ["functions"]);

        assert_eq!(store.value(recorded).await, own);
    });
}

#[test]
fn a_foreign_function_of_a_contract_name_is_an_error_until_it_is_adopted() {
    let url = crate::harness::empty_database();
    backend::run(async {
        let store = Backend::at(url, None).await;
        store
            .execute(
                "create function recover_dead_letter(id uuid) returns boolean language sql as 'select true';
             create function mark_dead_letter_holding(p_dead_letter_id uuid) returns boolean
               language sql as 'select true'",
            )
            .await;

        let refused = store.migrate(false).await.unwrap_err();

        assert!(
            matches!(&refused, StoreError::ForeignFunction { function } if function.contains("dead_letter")),
            "{refused}"
        );
        assert!(refused.to_string().contains("migrate --adopt"), "{refused}");
        store.migrate(true).await.unwrap();
        store.check_schema().await.unwrap();
        assert!(!store.recover_dead_letter(id(1), None).await.unwrap());
        store.mark_dead_letter_holding(id(1)).await.unwrap();
        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_function_of_a_drainer_that_the_application_made_is_adopted_after_the_schema_too() {
    backend::on_postgres(async |store| {
        store
            .execute("create function complete_perspective_events(p_ids uuid[]) returns int language sql as 'select 1'")
            .await;

        let refused = store.migrate(false).await.unwrap_err();

        assert!(refused.to_string().contains("complete_perspective_events(uuid[])"), "{refused}");
        store.migrate(true).await.unwrap();
        assert!(store.complete_events(id(1), &[id(2)], None).await.unwrap().is_empty());
        let named = "select count(*) as n from pg_proc where proname = 'complete_perspective_events'";
        assert_eq!(store.value(named).await, json!(1));
        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_reader_in_a_transaction_is_neither_blocked_nor_in_the_way_of_others() {
    let url = crate::harness::migrated_database();
    backend::run(async {
        let store = Backend::at(url.clone(), None).await;
        store.insert("wh_outbox", &outbox_row(1)).await;
        let reader = sqlx::postgres::PgPool::connect(&url).await.unwrap();
        let mut reading = reader.begin().await.unwrap();
        for table in ["wh_outbox", "wh_inbox", "wh_perspective_events", "wh_event_store", "wh_dead_letters"] {
            let read = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
            sqlx::query(read).fetch_one(&mut *reading).await.unwrap();
        }

        assert_eq!(store.migrate(false).await.unwrap(), Vec::<String>::new(), "an existing schema needs no lock");
        store.execute("set lock_timeout = '2s'; update wh_outbox set error = 'x'").await;

        reading.rollback().await.unwrap();
    });
}

#[test]
fn a_reader_of_the_applications_tables_does_not_stop_the_first_migration() {
    let url = crate::harness::empty_database();
    backend::run(async {
        let store = Backend::at(url.clone(), None).await;
        older_tables(&store).await;
        let reader = sqlx::postgres::PgPool::connect(&url).await.unwrap();
        let mut reading = reader.begin().await.unwrap();
        sqlx::query("select * from wh_outbox").fetch_all(&mut *reading).await.unwrap();

        let migrating = tokio::spawn({
            let store = store.shared();
            async move { store.migrate(false).await }
        });
        // The migration has come to the table that the reader holds open, and waits.
        let waiting = "select count(*) as n from pg_locks where not granted and locktype = 'relation'";
        while store.value(waiting).await == 0 && !migrating.is_finished() {
            tokio::task::yield_now().await;
        }
        // Others still get through to the table, at the latest when its short wait for the lock ends.
        store.execute("set lock_timeout = '10s'; update wh_outbox set error = 'x'").await;
        reading.commit().await.unwrap();

        migrating.await.unwrap().unwrap();
        store.check_schema().await.unwrap();
    });
}
