//! What wakes every host is not looked at by every host.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use reprieve::model::SourceTable;
use reprieve::recovery::{RecoveryOptions, Rota, Scanner};
use reprieve::store::{HostPlace, Move};
use serde_json::json;
use uuid::Uuid;

use crate::harness::backend::on_postgres;
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, outbox_row};
use crate::recovery::host::{host, is_back};
use crate::recovery::loops::{runs, until, until_idle};

const NEVER: Duration = Duration::from_secs(600);
/// A little more than the time for which a host looks closely after a signal.
const ATTENTIVE: Duration = Duration::from_millis(1100);
/// How often it looks in that time when it is alone.
const LOOKS: i64 = 50;
/// More statements than one host makes for its first look and a scan that finds little.
const SCAN: i64 = 10;

/// Hosts that wait for signals alone, each with connections of its own.
async fn idle_hosts(store: &Backend, hosts: u32) -> Vec<Scanner> {
    let mut idle = Vec::new();
    for before in 0..hosts {
        let options = RecoveryOptions { scan_interval: NEVER, probe_interval: NEVER, ..RecoveryOptions::default() };
        let rota = Arc::new(Rota::default());
        rota.take(HostPlace { hosts, before });
        let (options, instance) = (Arc::new(options), Uuid::now_v7());
        idle.push(Scanner { store: store.another().await, options, rota, instance, ..host(store).await });
    }
    idle
}

/// How often the database was asked from the start of so many hosts to their end, with the death of a message while they
/// are idle or without it.
async fn asked(store: &Backend, hosts: u32, dying: Option<u64>) -> i64 {
    let sessions = "select count(*) as n from pg_stat_activity
        where datname = current_database() and application_name = 'reprieve'";
    // The session that lets a message die is there from the start.
    store.ping().await.unwrap();
    let (at_first, before) = (store.value(sessions).await, calls(store).await);
    let idle = idle_hosts(store, hosts).await;
    let workers: Vec<_> = idle.iter().map(runs).collect();
    for scanner in &idle {
        until_idle(scanner).await;
    }
    if let Some(n) = dying {
        let request = Move { dead_letter_id: Uuid::now_v7(), now: None, ..moving(SourceTable::Outbox, n) };
        store.move_to_dead_letters(&request).await.unwrap().expect("moved");
        until("it is back", async || is_back(store, n).await).await;
    }
    // What is counted is what they do for so long.
    let _ = tokio::time::timeout(ATTENTIVE, std::future::pending::<()>()).await;
    for (scanner, worker) in idle.iter().zip(workers) {
        scanner.shutdown.cancel();
        worker.await.unwrap();
    }
    drop(idle);
    // A session tells what it did at its end.
    until("the hosts' sessions end", async || store.value(sessions).await.as_i64() <= at_first.as_i64()).await;
    calls(store).await - before
}

async fn calls(store: &Backend) -> i64 {
    store.calls(&["reprieve_due", "reprieve_claim_rows", "reprieve_rescue", "reprieve_take_retries"]).await
}

#[test]
fn a_signal_makes_four_hosts_ask_the_database_little_more_often_than_one() {
    on_postgres(async |store| {
        store.count_calls().await;
        for n in 1..=2 {
            store.insert("wh_outbox", &with(outbox_row(n), json!({ "stream_id": null }))).await;
        }
        let one = asked(&store, 1, Some(1)).await - asked(&store, 1, None).await;
        let four = asked(&store, 4, Some(2)).await - asked(&store, 4, None).await;

        let _ = writeln!(std::io::stderr(), "for one death, 1 host asks {one} times, 4 hosts {four} times");
        assert!(one > SCAN, "{one}: it looks closely after a signal");
        assert!(four <= LOOKS + 4 * SCAN, "1 host asks {one} times, 4 hosts {four} times");
    });
}
