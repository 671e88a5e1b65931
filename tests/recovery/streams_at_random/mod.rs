//! Whatever happens in whatever order, what comes back keeps the order of its stream, and nothing is lost or stuck.

mod seen;
mod step;
mod world;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::step::Step;
use self::world::World;
use crate::harness::backend::run;
use crate::harness::{Backend, migrated_database, watch_arrivals};

async fn trace(store: &Backend, held_blocks: bool, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(store, held_blocks).await;
    for step in steps {
        world.take(step).await.map_err(|problem| format!("after {step:?}: {problem}"))?;
    }
    world.comes_to_rest().await
}

fn check_at_random(store: impl Future<Output = Backend>) {
    run(async {
        let store = store.await;
        watch_arrivals(&store).await;
        let handle = tokio::runtime::Handle::current();
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24);
        let config = Config { cases, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
        // The runner is not async, and a test's runtime has one thread: the property gets a thread of its own.
        tokio::task::spawn_blocking(move || {
            TestRunner::new(config).run(&step::courses(), |(held_blocks, steps)| {
                handle.block_on(trace(&store, held_blocks, &steps)).map_err(TestCaseError::fail)
            })
        })
        .await
        .unwrap()
        .unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn successes_keep_the_order_of_their_stream_on_sqlite() {
    check_at_random(async {
        let sqlite = Backend::empty_sqlite().await;
        sqlite.migrate(false).await.unwrap();
        sqlite
    });
}

#[test]
fn successes_keep_the_order_of_their_stream_on_postgres() {
    let url = migrated_database();
    check_at_random(Backend::at(url, None));
}
