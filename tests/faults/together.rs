//! Everybody at once.

use std::time::Duration;

use reprieve::model::{RecoveryStatus, SourceTable};
use reprieve::recovery::{Generation, Scanner};
use reprieve::store::{Filter, KeepSettled, OperatorChange, OperatorVerb, Target};
use serde_json::json;

use crate::harness::backend::on_postgres;
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, at, dead_letter, outbox_row, source, stream};
use crate::recovery::host::host;

const ROUNDS: u64 = 12;
const ROWS: u64 = 120;

/// A host scans again and again, at a later time each round, and sweeps for a new generation each time.
async fn recovers(host: Scanner, from: i64) {
    for round in 0..ROUNDS {
        let now = at(from + i64::try_from(round).unwrap() * 7200);
        let generation = Generation::fixed(Some(format!("g{}", round + 2)));
        let host = Scanner { now: Some(now), generation, ..host.clone() };
        host.sweep().await.expect("a sweep");
        host.until_idle().await.expect("a scan");
    }
}

async fn operates(store: &Backend) {
    for round in 0..ROUNDS {
        for (verb, status) in [
            (OperatorVerb::Retry, RecoveryStatus::HoldForReview),
            (OperatorVerb::Hold, RecoveryStatus::Pending),
            (OperatorVerb::Retry, RecoveryStatus::PermanentlyFailed),
            (OperatorVerb::GiveUp, RecoveryStatus::HoldForReview),
        ] {
            let target = Target::Filter(Filter { status: Some(status), ..Filter::default() });
            let now = Some(at(60 + i64::try_from(round).unwrap() * 7200));
            let change = OperatorChange { verb, target, actor: "anna", note: None, now };
            store.change(&change).await.expect("an operator's verb");
        }
    }
}

/// What was recovered dies again, and what is settled is deleted.
async fn dies_and_is_deleted(store: &Backend, host: &Scanner) {
    for _ in 0..ROUNDS {
        for n in 1..=ROWS / 4 {
            let dead_letter_id = uuid::Uuid::now_v7();
            let request = reprieve::store::Move { dead_letter_id, now: None, ..moving(SourceTable::Outbox, n) };
            store.move_to_dead_letters(&request).await.expect("a move");
        }
        let keep = KeepSettled { recovered: Some(Duration::from_secs(7200)), permanently_failed: None };
        host.forget_settled(keep, Duration::ZERO).await.expect("a pass over the settled");
        host.forget_decisions(Duration::from_secs(7200), Duration::ZERO).await.expect("a pass over the decisions");
    }
}

#[test]
fn several_hosts_operators_sweeps_deaths_and_the_retention_never_wait_for_each_other_in_a_circle() {
    on_postgres(async |store| {
        for n in 1..=ROWS {
            let reason = [8, 6, 1, 5][usize::try_from(n).unwrap() % 4];
            let row = json!({ "stream_id": stream(n % 20).to_string(), "failure_reason": reason });
            store.insert("wh_dead_letters", &with(dead_letter(n), row)).await;
        }
        for n in ROWS + 1..=ROWS + 10 {
            store.insert("wh_outbox", &outbox_row(n)).await;
        }
        let first = host(&store).await;
        let second = Scanner { instance: uuid::Uuid::now_v7(), store: store.another().await, ..host(&store).await };
        let far = 1000 * 60 * 60;

        let later = Scanner { now: Some(at(far)), ..first.clone() };

        tokio::join!(recovers(first, 60), recovers(second, 60), operates(&store), dies_and_is_deleted(&store, &later),);

        let deadlocks =
            store.value("select deadlocks as n from pg_stat_database where datname = current_database()").await;
        assert_eq!(deadlocks, json!(0));
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    });
}

#[test]
fn a_death_does_not_wait_for_another_one_that_is_not_committed_yet() {
    on_postgres(async |store| {
        for n in 1..=2 {
            store.insert("wh_outbox", &outbox_row(n)).await;
        }
        let crate::harness::raw::Raw::Postgres(pool) = &store.raw else { unreachable!("this is PostgreSQL") };
        let dies = |n: u64| {
            let source = source(n);
            let id = uuid::Uuid::now_v7();
            sqlx::AssertSqlSafe(format!(
                "select move_to_dead_letters('{id}', 'wh_outbox', '{source}', 8, 'error', null, 'g1')"
            ))
        };
        let mut first = pool.begin().await.unwrap();
        sqlx::query(dies(1)).execute(&mut *first).await.unwrap();

        let mut second = pool.begin().await.unwrap();
        sqlx::query("set local lock_timeout = '1ms'").execute(&mut *second).await.unwrap();
        sqlx::query(dies(2)).execute(&mut *second).await.expect("nothing to wait for");
        second.commit().await.expect("nothing to wait for");

        first.rollback().await.unwrap();
        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
    });
}
