//! Whatever happens in whatever order, no message is lost, none is re-emitted for nothing, and both stores agree.

mod host;
mod seen;
mod step;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::host::Host;
use self::seen::{Seen, check};
use self::step::{Step, steps};
use crate::harness::backend::run;
use crate::harness::{Backend, migrated_database};

/// Runs the steps on an emptied store; what was seen after each of them.
async fn trace(store: &Backend, steps: &[Step]) -> Result<Vec<Seen>, String> {
    for table in ["wh_dead_letters", "wh_outbox", "wh_recovery_batches", "wh_dead_letter_decisions"] {
        store.execute(&format!("delete from {table}")).await;
    }
    let mut host = Host::new();
    let mut seen = vec![Seen::of(store, String::new()).await];
    for step in steps {
        let told = host.take(store, step).await;
        let now = Seen::of(store, told).await;
        let wrong = |problem| format!("after {step:?}: {problem}\nbefore: {:?}\nafter: {now:?}", seen.last());
        check(seen.last().expect("a start"), &now).map_err(wrong)?;
        seen.push(now);
    }
    Ok(seen)
}

#[test]
fn random_sequences_lose_nothing_repeat_nothing_and_agree() {
    let url = migrated_database();
    run(async {
        let postgres = Backend::at(url, None).await;
        let sqlite = Backend::empty_sqlite().await;
        sqlite.migrate(false).await.unwrap();
        let handle = tokio::runtime::Handle::current();
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(32);
        let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
        // The runner is not async, and a test's runtime has one thread: the property gets a thread of its own.
        tokio::task::spawn_blocking(move || {
            TestRunner::new(config).run(&steps(), |steps| {
                handle.block_on(async {
                    let on_sqlite = trace(&sqlite, &steps).await.map_err(TestCaseError::fail)?;
                    let on_postgres = trace(&postgres, &steps).await.map_err(TestCaseError::fail)?;
                    for ((one, two), step) in on_sqlite.iter().zip(&on_postgres).skip(1).zip(&steps) {
                        proptest::prop_assert_eq!(one, two, "the stores differ after {:?}", step);
                    }
                    Ok(())
                })
            })
        })
        .await
        .unwrap()
        .unwrap_or_else(|error| panic!("{error}"));
    });
}
