//! Migrations.

use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

use super::{MIGRATIONS, empty, migrated};
use crate::store::sqlite::statements;
use crate::store::{OperatorStore, StoreError};

#[tokio::test]
async fn every_statement_prepares_on_a_migrated_database() {
    let file = migrated().await;
    let mut conn = file.raw().await;
    assert!(statements().len() > 40);
    for (name, sql) in statements() {
        conn.prepare(sql.into_sql_str()).await.map(drop).unwrap_or_else(|error| panic!("{name}: {error}\n{sql}"));
    }
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let file = migrated().await;
    let schema = "select group_concat(sql) from sqlite_master";
    let before = file.text(schema).await;
    assert!(file.store.migrate(false).await.unwrap().is_empty());
    assert_eq!(file.text(schema).await, before);
    file.store.check_schema().await.unwrap();
}

#[tokio::test]
async fn a_database_without_the_schema_says_so() {
    let file = empty().await;
    assert!(matches!(file.store.check_schema().await, Err(StoreError::NotMigrated { .. })));
    let listed = file.store.count(&crate::store::Filter::default()).await;
    assert!(matches!(listed, Err(StoreError::NotMigrated { .. })));
}

#[tokio::test]
async fn tables_of_an_application_keep_their_rows_and_columns_and_get_what_they_lack() {
    let file = empty().await;
    file.sql(
        "create table wh_outbox (message_id text primary key, message_type text not null, event_data text not null, \
         metadata text not null, tenant text not null default 'none'); \
         insert into wh_outbox values ('a', 't', '{}', '{}', 'mine'); \
         create table wh_dead_letters (dead_letter_id text primary key, source_table text not null, \
         source_id text not null, message_type text not null, envelope text not null, failure_reason integer not null, \
         generation text not null); \
         insert into wh_dead_letters values ('b', 'elsewhere', 'c', 't', '{}', 1, 'g')",
    )
    .await;
    assert_eq!(file.store.migrate(false).await.unwrap().len(), MIGRATIONS.len());
    let text = |sql: &'static str| async { file.text(sql).await.unwrap_or_default() };
    assert_eq!(text("select tenant || attempts || failure_reason || is_event from wh_outbox").await, "mine0990");
    assert_eq!(
        text("select incarnation || retried_on_generations || recovery_status from wh_dead_letters").await,
        "1[]0"
    );
    let mut conn = file.raw().await;
    for (name, sql) in statements() {
        conn.prepare(AssertSqlSafe(*sql).into_sql_str()).await.map(drop).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[tokio::test]
async fn the_claim_reads_only_the_index_of_due_rows() {
    let file = migrated().await;
    let plan = file.plan("free_rows::DUE").await;
    assert!(plan.contains("SEARCH d USING INDEX wh_dead_letters_due (<expr>>? AND <expr><?)"), "{plan}");
    assert!(!plan.contains("SCAN d"), "{plan}");
}

#[tokio::test]
async fn a_claim_of_whole_streams_reads_only_their_indexes_and_the_rows_that_it_takes() {
    let file = migrated().await;
    let first = file.plan("free_rows::OPEN_IN_STREAM").await;
    assert!(first.contains("SEARCH d USING INDEX wh_dead_letters_stream_order (<expr>=?)"), "{first}");
    assert!(!first.contains("SCAN d") && !first.contains("ORDER BY"), "{first}");
    let rows = file.plan("free_rows::ROWS").await;
    assert!(rows.contains("SEARCH d USING INTEGER PRIMARY KEY (rowid=?)") && !rows.contains("SCAN d"), "{rows}");
}
