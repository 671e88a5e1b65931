//! The worker's loop: what wakes it, and what ends it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reprieve::model::RecoveryStatus;
use reprieve::recovery::{Generation, RecoveryOptions, Scanner, Worker};
use serde_json::json;
use tokio::task::JoinHandle;

use super::host::{default_matrix, host, is_back};
use super::policies::{fails_on_everything, host_with};
use crate::harness::backend::{on_postgres, on_sqlite};
use crate::harness::raw::Raw;
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, at, dead_letter, id, outbox_row};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A worker that looks by itself every ten minutes only.
async fn idle_worker(store: &Backend, signals: bool) -> Scanner {
    let options = RecoveryOptions {
        scan_interval: TEN_MINUTES,
        probe_interval: TEN_MINUTES,
        signals,
        ..RecoveryOptions::default()
    };
    Scanner { options: Arc::new(options), ..host(store).await }
}

/// An idle worker that looks every tenth of a second which generation a file holds.
async fn worker_of_a_file(store: &Backend, file: &Path) -> Scanner {
    let idle = idle_worker(store, false).await;
    let options = RecoveryOptions { probe_interval: Duration::from_millis(100), ..(*idle.options).clone() };
    Scanner { generation: Generation::file(file.to_owned()), options: options.into(), ..idle }
}

pub fn runs(scanner: &Scanner) -> JoinHandle<()> {
    let worker = Worker::new(scanner.clone());
    tokio::spawn(async move { worker.run().await })
}

/// Waits until something holds; fails when it does not for half a minute.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(tokio::time::Instant::now() < give_up, "{what} within half a minute");
        tokio::task::yield_now().await;
    }
}

/// Waits until the worker has scanned and found nothing: it is idle.
pub async fn until_idle(scanner: &Scanner) {
    until("the first scan ends", async || scanner.health.report().last_scan.is_some()).await;
}

on_both_stores! {
    async fn a_row_moved_by_somebody_else_wakes_an_idle_worker(store: Backend) {
        let scanner = idle_worker(&store, true).await;
        let worker = runs(&scanner);
        until_idle(&scanner).await;
        let application = store.another().await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({ "stream_id": null }))).await;

        let request = reprieve::store::Move { now: None, ..moving(reprieve::model::SourceTable::Outbox, 1) };
        application.move_to_dead_letters(&request).await.unwrap().expect("moved");

        until("it is back", async || is_back(&store, 1).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_row_is_tried_at_the_moment_it_falls_due(store: Backend) {
        let due = Timestamp::now() + SignedDuration::from_millis(1500);
        // Swept already: a start-up sweep would make it due at once.
        let row = json!({ "next_recovery_at": format!("{due:.6}"), "retried_on_generations": ["g1"] });
        store.insert("wh_dead_letters", &with(dead_letter(1), row)).await;
        let scanner = idle_worker(&store, false).await;
        let worker = runs(&scanner);

        until("it is back", async || is_back(&store, 1).await).await;

        let letter = store.letter(id(1)).await;
        assert!(letter.recovered_at.unwrap() >= letter.last_recovery_at.unwrap());
        let late = letter.recovered_at.unwrap().duration_since(reprieve::model::time::stored(due));
        assert!(!late.is_negative(), "not before its time");
        assert!(late < SignedDuration::from_secs(10), "long before the next look, in ten minutes: {late:#}");
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_worker_sweeps_for_its_generation_before_its_first_scan(store: Backend) {
        let held = json!({ "recovery_status": 2, "failure_reason": 4 });
        store.insert("wh_dead_letters", &with(dead_letter(1), held)).await;
        let scanner = Scanner {
            generation: Generation::fixed(Some("g2".to_owned())),
            ..idle_worker(&store, false).await
        };
        let worker = runs(&scanner);

        until("it is back", async || is_back(&store, 1).await).await;

        assert_eq!(scanner.metrics.totals().total_generation_replays, 1);
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_generation_file_that_changes_sweeps_without_a_restart(store: Backend) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("generation");
        std::fs::write(&file, "g1\n").unwrap();
        store.insert("wh_dead_letters", &with(dead_letter(1), json!({ "recovery_status": 2 }))).await;
        let scanner = worker_of_a_file(&store, &file).await;
        let worker = runs(&scanner);
        until_idle(&scanner).await;
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview);

        std::fs::write(&file, "g2\n").unwrap();

        until("it is back", async || is_back(&store, 1).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_worker_whose_policy_fails_on_everything_says_so_and_goes_on_with_the_next_policy(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let options = RecoveryOptions { signals: false, ..RecoveryOptions::default() };
        let mut scanner = host_with(&store, fails_on_everything(), options).await;
        scanner.now = Some(at(60));
        let worker = runs(&scanner);
        let fault = || scanner.health.report().policy_fault;

        until("it says so", async || fault().is_some_and(|(_, fault)| fault.contains("does not start"))).await;
        scanner.policy.replace(default_matrix().await);

        until("it is back", async || is_back(&store, 1).await).await;
        until("the fault is forgotten", async || fault().is_none()).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_sweep_that_fails_is_made_when_the_store_is_there_again(store: Backend) {
        store.insert("wh_dead_letters", &with(dead_letter(1), json!({ "recovery_status": 2 }))).await;
        store.execute("alter table wh_dead_letters rename to elsewhere").await;
        let scanner =
            Scanner { generation: Generation::fixed(Some("g2".to_owned())), ..idle_worker(&store, false).await };
        let worker = runs(&scanner);
        until("the store's fault is seen", async || scanner.health.report().store_fault.is_some()).await;

        store.execute("alter table elsewhere rename to wh_dead_letters").await;

        until("it is back", async || is_back(&store, 1).await).await;
        assert_eq!(scanner.metrics.totals().total_generation_replays, 1);
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }

    async fn a_worker_without_a_generation_sweeps_nothing(store: Backend) {
        store.insert("wh_dead_letters", &with(dead_letter(1), json!({ "recovery_status": 2 }))).await;
        let scanner = Scanner { generation: Generation::fixed(None), ..idle_worker(&store, false).await };
        let worker = runs(&scanner);

        until_idle(&scanner).await;

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview);
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }
}

#[test]
fn a_new_generation_is_swept_for_while_a_scan_goes_on() {
    on_postgres(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("generation");
        std::fs::write(&file, "g1").unwrap();
        store.inserts_wait().await;
        let lock = store.transaction("select pg_advisory_xact_lock(42)").await;
        // The sweep has nothing to do with the row that the settle has locked.
        store.dead(1, json!({ "retried_on_generations": ["g2"] })).await;
        store.dead(2, json!({ "recovery_status": 2 })).await;
        let scanner = worker_of_a_file(&store, &file).await;
        let worker = runs(&scanner);
        let waiting = "select count(*) as n from pg_locks where locktype = 'advisory' and objid = 42 and not granted";
        until("the settle waits", async || store.value(waiting).await == json!(1)).await;

        std::fs::write(&file, "g2").unwrap();

        until("it is swept", async || store.letter(id(2)).await.replay_credit.as_deref() == Some("g2")).await;
        assert!(!is_back(&store, 1).await, "the scan goes on");
        lock.commit().await.unwrap();
        until("all of it is back", async || is_back(&store, 1).await && is_back(&store, 2).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    });
}

#[test]
fn a_sweep_and_a_scan_that_wait_for_the_same_lock_both_go_on() {
    on_sqlite(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("generation");
        std::fs::write(&file, "g1").unwrap();
        store.dead(1, json!({ "recovery_status": 2 })).await;
        let scanner = worker_of_a_file(&store, &file).await;
        let Raw::Sqlite(pool) = &store.raw else { unreachable!("this is SQLite") };
        let mut another = pool.acquire().await.unwrap();
        sqlx::query("begin immediate").execute(&mut *another).await.unwrap();
        let worker = runs(&scanner);
        until("the first tag is read", async || scanner.generation.tag().as_deref() == Some("g1")).await;

        std::fs::write(&file, "g2").unwrap();
        until("the second is read, by a scan's side", async || scanner.generation.tag().as_deref() == Some("g2")).await;
        sqlx::query("rollback").execute(&mut *another).await.unwrap();
        drop(another);

        until("it is swept for", async || is_back(&store, 1).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    });
}
