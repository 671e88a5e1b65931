//! Every statement of a store is one that its database understands.

use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

use crate::harness::Backend;
use crate::harness::raw::Raw;

fn of_store(postgres: bool) -> &'static [(&'static str, &'static str)] {
    if postgres { reprieve::store::postgres::statements() } else { reprieve::store::sqlite::statements() }
}

on_both_stores! {
    async fn each_can_be_prepared(store: Backend) {
        let statements = of_store(store.is_postgres());
        assert!(statements.len() > 10, "the list is not complete: {}", statements.len());
        for (name, sql) in statements {
            let text = AssertSqlSafe((*sql).to_owned()).into_sql_str();
            let prepared = match &store.raw {
                Raw::Postgres(pool) => pool.prepare(text).await.map(drop),
                Raw::Sqlite(pool) => pool.prepare(text).await.map(drop),
            };
            prepared.unwrap_or_else(|error| panic!("{name}: {error}\n{sql}"));
        }
    }

    async fn names_are_given_once(store: Backend) {
        let mut names: Vec<&str> = of_store(store.is_postgres()).iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();

        assert_eq!(names.len(), all);
    }
}
