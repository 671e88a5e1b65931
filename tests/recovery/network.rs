//! What networks do to the connections of a host: each fault, and what a worker makes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reprieve::model::{RecoveryStatus, SourceTable};
use reprieve::recovery::{RecoveryOptions, Scanner};
use reprieve::store::open::{Options, open};
use reprieve::telemetry::health::ListenerState;
use serde_json::json;

use super::host::{host, is_back};
use super::loops::{runs, until, until_idle};
use crate::harness::backend::on_postgres;
use crate::harness::proxy::Proxy;
use crate::harness::raw::Raw;
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, at, dead_letter, id, outbox_row};

const TEN_MINUTES: Duration = Duration::from_secs(600);
/// How long a host of these tests waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A host whose connections go through a proxy, which looks by itself every ten minutes only.
async fn host_behind(proxy: &Proxy, store: &Backend) -> Scanner {
    let options = Options { patience: PATIENCE, ..Options::default() };
    let through = open(&proxy.url(&store.url), &options).await.unwrap();
    let options = RecoveryOptions {
        scan_interval: TEN_MINUTES,
        probe_interval: TEN_MINUTES,
        enable_generation_replay: false,
        ..RecoveryOptions::default()
    };
    Scanner { store: through, options: Arc::new(options), ..host(store).await }
}

/// An application that is connected to the server itself lets the `n`-th message die.
pub async fn dies(store: &Backend, n: u64) {
    store.insert("wh_outbox", &with(outbox_row(n), json!({ "stream_id": null }))).await;
    let request = reprieve::store::Move { now: None, ..moving(SourceTable::Outbox, n) };
    store.move_to_dead_letters(&request).await.unwrap().expect("moved");
}

/// A worker is idle, the network does something, and a message dies: it is back, long before the next look.
fn a_worker_is_woken_all_the_same(fault: impl AsyncFnOnce(&Proxy, &Scanner)) {
    on_postgres(async |store| {
        let proxy = Proxy::before(&store.url).await;
        let scanner = host_behind(&proxy, &store).await;
        let worker = runs(&scanner);
        until_idle(&scanner).await;
        assert_eq!(scanner.health.report().listener, ListenerState::Listening);

        fault(&proxy, &scanner).await;
        dies(&store, 1).await;

        until("it is back", async || is_back(&store, 1).await).await;
        until("the worker listens", async || scanner.health.report().listener == ListenerState::Listening).await;
        dies(&store, 2).await;
        until("the next one is back", async || is_back(&store, 2).await).await;
        scanner.shutdown.cancel();
        worker.await.unwrap();
    });
}

#[test]
fn connections_that_are_reset_are_made_again_and_nothing_is_missed() {
    a_worker_is_woken_all_the_same(async |proxy, _| proxy.cuts());
}

#[test]
fn connections_that_are_dropped_in_silence_are_noticed_by_their_pulse_and_made_again() {
    a_worker_is_woken_all_the_same(async |proxy, _| proxy.forgets());
}

#[test]
fn connections_that_the_server_has_closed_and_the_client_has_not_are_made_again() {
    a_worker_is_woken_all_the_same(async |proxy, _| proxy.half_closes());
}

#[test]
fn a_network_that_stands_still_for_a_while_loses_nothing() {
    a_worker_is_woken_all_the_same(async |proxy, scanner| {
        proxy.stalls();
        until("the silence is noticed", async || scanner.health.report().listener == ListenerState::Lost).await;
        proxy.mends();
    });
}

#[test]
fn a_server_that_nobody_can_connect_to_for_a_while_is_told_and_worked_on_when_it_is_back() {
    a_worker_is_woken_all_the_same(async |proxy, scanner| {
        proxy.refuses();
        until("the loss is told", async || scanner.health.report().listener == ListenerState::Lost).await;
        until("the store's fault is told", async || scanner.health.report().store_fault.is_some()).await;
        proxy.mends();
    });
}

#[test]
fn a_worker_that_backs_off_looks_again_as_soon_as_the_subscription_stands_again() {
    on_postgres(async |store| {
        // Each scan fails, and is counted all the same.
        store
            .execute(
                "create sequence tries;
                 create or replace function reprieve_take_retries(p_after uuid, p_limit integer, p_now timestamptz)
                 returns table (taken bigint, problem text, last_id uuid)
                 language plpgsql as $$ begin perform nextval('tries'); raise exception 'not now'; end $$",
            )
            .await;
        let proxy = Proxy::before(&store.url).await;
        let scanner = host_behind(&proxy, &store).await;
        let worker = runs(&scanner);
        let tries = async || store.value("select last_value as n from tries").await.as_i64().unwrap();
        until("it waits for more than three seconds", async || tries().await >= 6).await;

        proxy.cuts();
        let cut = Instant::now();
        until("it tries again, and again with short waits", async || tries().await >= 9).await;

        assert!(cut.elapsed() < Duration::from_secs(12), "13 seconds or more from where it was: {:?}", cut.elapsed());
        scanner.shutdown.cancel();
        worker.await.unwrap();
    });
}

#[test]
fn a_settle_whose_answer_is_lost_recovers_its_row_once_and_counts_one_attempt() {
    on_postgres(async |store| {
        store.inserts_wait().await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let proxy = Proxy::before(&store.url).await;
        let scanner = Scanner { now: Some(at(60)), ..host_behind(&proxy, &store).await };
        let Raw::Postgres(pool) = &store.raw else { unreachable!("this is PostgreSQL") };
        let mut lock = pool.begin().await.unwrap();
        sqlx::query("select pg_advisory_xact_lock(42)").execute(&mut *lock).await.unwrap();

        let scan = tokio::spawn(async move { scanner.until_idle().await });
        let waiting = "select count(*) as n from pg_locks where locktype = 'advisory' and objid = 42 and not granted";
        until("the settle waits", async || store.value(waiting).await == json!(1)).await;
        proxy.forgets();
        lock.commit().await.unwrap();
        scan.await.unwrap().expect("the network lets new connections pass");

        assert!(is_back(&store, 1).await);
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Recovered, 1));
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    });
}
