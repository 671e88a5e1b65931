//! How many connections a store holds.

use std::sync::Arc;

use reprieve::store::postgres::{PostgresOptions, PostgresStore};
use reprieve::store::{Import, OperatorStore};
use tokio::task::JoinSet;

use crate::harness::backend;
use crate::harness::rows::import_line;

#[test]
fn statements_that_follow_one_another_share_a_connection() {
    backend::on_postgres(async |store| {
        for _ in 0..20 {
            store.ping().await.unwrap();
        }

        let connections = store
            .value("select count(*) from pg_stat_activity where datname = current_database() and query = 'select 1'")
            .await;
        assert_eq!(connections, 1);
    });
}

#[test]
fn statements_leave_a_connection_for_transactions() {
    backend::on_postgres(async |store| {
        let options = PostgresOptions { max_connections: 3, ..PostgresOptions::default() };
        let few = Arc::new(PostgresStore::connect(&store.url, options).await.unwrap());
        let mut statements = JoinSet::new();
        for _ in 0..20 {
            let few = Arc::clone(&few);
            statements.spawn(async move { few.ping().await });
        }
        for answered in statements.join_all().await {
            answered.unwrap();
        }

        let imported = few.import(&Import { rows: &[import_line(1)], now: None }).await.unwrap();

        assert_eq!(imported.imported, 1);
    });
}
