//! Whatever instances do in whatever order, both stores do what the model does.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use super::course::{Course, Step, number, steps};
use super::model::{Model, Row};
use crate::harness::backend::run;
use crate::harness::{Backend, T0, instance, migrated_database};

/// A row: number, attempts, owner, end of the lease, time at which it is due, whether it is processed.
type Stands = (u64, i64, Value, Option<i64>, Option<i64>, bool);

/// The rows as they stand in the table.
async fn table(store: &Backend) -> Vec<Stands> {
    let rows = store.query("select * from wh_perspective_events order by event_id").await;
    let seconds = |value: &Value| value.as_str().map(|text| text.parse::<jiff::Timestamp>().unwrap().as_second() - T0);
    rows.iter()
        .map(|row| {
            let number = number(row["event_work_id"].as_str().unwrap().parse().unwrap());
            let (lease, due) = (seconds(&row["lease_expiry"]), seconds(&row["scheduled_for"]));
            let attempts = row["attempts"].as_i64().unwrap();
            (number, attempts, row["instance_id"].clone(), lease, due, !row["processed_at"].is_null())
        })
        .collect()
}

fn expected(model: &Model) -> Vec<Stands> {
    let alive = model.rows.iter().filter(|row| !row.dead);
    let owner = |row: &Row| row.owner.map_or(Value::Null, |who| json!(instance(who)));
    alive
        .map(|row| {
            (row.number, i64::from(row.attempts), owner(row), row.leased_until, row.scheduled_for, row.processed)
        })
        .collect()
}

async fn follows_the_model(store: &Backend, steps: &[Step]) -> Result<(), TestCaseError> {
    for table in ["wh_dead_letters", "wh_perspective_events", "wh_event_store", "wh_service_instances"] {
        store.execute(&format!("delete from {table}")).await;
    }
    let mut course = Course::default();
    for step in steps {
        let (given, wanted) = course.take(store, step).await;
        prop_assert_eq!(given, wanted, "the answer to {:?} at {} s", step, course.now);
        prop_assert_eq!(table(store).await, expected(&course.model), "after {:?} at {} s", step, course.now);
    }
    Ok(())
}

#[test]
fn both_stores_follow_the_model() {
    let url = migrated_database();
    run(async {
        let postgres = Backend::at(url, None).await;
        let sqlite = Backend::empty_sqlite().await;
        sqlite.migrate(false).await.unwrap();
        let handle = tokio::runtime::Handle::current();
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(32);
        let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
        tokio::task::spawn_blocking(move || {
            TestRunner::new(config).run(&steps(), |steps| {
                handle.block_on(async {
                    follows_the_model(&sqlite, &steps).await?;
                    follows_the_model(&postgres, &steps).await
                })
            })
        })
        .await
        .unwrap()
        .unwrap_or_else(|error| panic!("{error}"));
    });
}
