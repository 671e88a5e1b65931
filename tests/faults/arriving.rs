//! Messages that die at a moment when nobody looks.

use std::sync::Arc;
use std::time::Duration;

use reprieve::model::SourceTable;
use reprieve::recovery::{RecoveryOptions, Scanner};
use serde_json::json;

use crate::harness::backend::on_postgres;
use crate::harness::raw::Raw;
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, outbox_row};
use crate::recovery::host::{host, is_back};
use crate::recovery::loops::{runs, until, until_idle};
use crate::recovery::network::dies;

/// A worker that looks by itself every ten minutes only.
async fn worker_of(store: &Backend) -> Scanner {
    let ten_minutes = Duration::from_secs(600);
    let options =
        RecoveryOptions { scan_interval: ten_minutes, probe_interval: ten_minutes, ..RecoveryOptions::default() };
    Scanner { options: Arc::new(options), ..host(store).await }
}

#[test]
fn a_message_that_dies_while_a_scan_runs_is_met_by_one_more_scan() {
    on_postgres(async |store| {
        let scanner = worker_of(&store).await;
        dies(&store, 1).await;
        store.insert("wh_outbox", &with(outbox_row(2), json!({ "stream_id": null }))).await;
        store.inserts_wait().await;
        let Raw::Postgres(pool) = &store.raw else { unreachable!("this is PostgreSQL") };
        let mut lock = pool.begin().await.unwrap();
        sqlx::query("select pg_advisory_xact_lock(42)").execute(&mut *lock).await.unwrap();

        let worker = runs(&scanner);
        let waiting = "select count(*) as n from pg_locks where locktype = 'advisory' and objid = 42 and not granted";
        until("the scan settles", async || store.value(waiting).await == json!(1)).await;
        let request = reprieve::store::Move { now: None, ..moving(SourceTable::Outbox, 2) };
        store.move_to_dead_letters(&request).await.unwrap().expect("moved");
        lock.commit().await.unwrap();

        until("both are back", async || is_back(&store, 1).await && is_back(&store, 2).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    });
}

on_both_stores! {
    async fn a_message_that_dies_between_the_subscription_and_the_first_scan_is_in_that_scan(store: Backend) {
        let scanner = worker_of(&store).await;
        let worker = runs(&scanner);
        dies(&store, 1).await;

        until_idle(&scanner).await;
        until("it is back", async || is_back(&store, 1).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }
}
