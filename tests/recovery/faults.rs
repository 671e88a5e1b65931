//! Databases that go away, hosts that die.

use std::time::Duration;

use reprieve::model::RecoveryStatus;
use reprieve::recovery::{RecoveryOptions, ScanError, Scanner};
use serde_json::json;

use super::host::{Told, host, is_back};
use super::loops::until;
use crate::harness::backend::{on_postgres, open_store};
use crate::harness::raw::Raw;
use crate::harness::rows::with;
use crate::harness::{Backend, at, begin, claim, dead_letter, id, outbox_row};

/// After the lease of the harness's batches.
const AFTER_THE_LEASE: i64 = 200;

/// From now on the server ends each of the next `times` connections that write into the outbox, in mid-statement.
async fn the_server_cuts_the_next_connections(store: &Backend, times: u32) {
    store
        .execute(&format!(
            "create sequence cuts;
             create function cut() returns trigger language plpgsql as $$
             begin
                 if nextval('cuts') <= {times} then
                     perform pg_terminate_backend(pg_backend_pid());
                     perform pg_sleep(10);
                 end if;
                 return new;
             end $$;
             create trigger cut before insert on wh_outbox for each statement execute function cut()"
        ))
        .await;
}

#[test]
fn an_outage_in_mid_scan_is_waited_out_and_counts_nothing_twice() {
    crate::harness::backend::on_postgres(async |store| {
        for n in 1..=30 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        the_server_cuts_the_next_connections(&store, 3).await;

        let counts = host(&store).await.scans_at(at(60)).await;

        assert_eq!((counts.scanned, counts.recovered), (30, 30));
        let attempts = store.value("select sum(recovery_attempts) as n from wh_dead_letters").await;
        assert_eq!(attempts, json!(30));
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    });
}

#[test]
fn an_outage_that_lasts_ends_the_scan_and_the_next_one_goes_on() {
    crate::harness::backend::on_postgres(async |store| {
        for n in 1..=30 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        the_server_cuts_the_next_connections(&store, 8).await;
        let host = Scanner { now: Some(at(60)), ..host(&store).await };

        let error = host.until_idle().await.expect_err("the settle failed six times");
        assert!(matches!(&error, ScanError::Store(error) if error.is_transient()), "{error}");
        assert_eq!(store.rows_in("wh_outbox").await, 0);
        let counts = host.until_idle().await.unwrap();

        assert_eq!(counts.recovered, 30);
        let attempts = store.value("select sum(recovery_attempts) as n from wh_dead_letters").await;
        assert_eq!(attempts, json!(30), "the fault was not the rows'");
    });
}

#[test]
fn batches_that_take_longer_than_the_server_lets_a_statement_take_shrink_until_they_go_through() {
    crate::harness::backend::on_postgres(async |store| {
        store
            .execute(
                "create function slow() returns trigger language plpgsql as
                     $$ begin perform pg_sleep(0.01); return new; end $$;
                 create trigger slow before insert on wh_outbox for each row execute function slow()",
            )
            .await;
        for n in 1..=60 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        // Rows that take 600 ms together, where a statement may take 300.
        let url = format!("{}?options=-c%20statement_timeout%3D300ms", store.url);
        let host = Scanner { now: Some(at(60)), store: open_store(&url).await, ..host(&store).await };

        let mut recovered = 0;
        let mut failures = 0;
        while recovered < 60 {
            match host.until_idle().await {
                Ok(counts) => recovered += counts.recovered,
                Err(error) => {
                    assert!(error.to_string().contains("statement timeout"), "{error}");
                    failures += 1;
                    assert!(failures < 10, "a batch of one row goes through at last");
                }
            }
            recovered = recovered.max(u64::try_from(store.rows_in("wh_outbox").await).unwrap());
        }

        assert!(failures > 0, "a batch of 60 rows takes too long");
        let attempts = store.value("select sum(recovery_attempts) as n from wh_dead_letters").await;
        assert_eq!(attempts, json!(60), "the fault was not the rows'");
    });
}

#[test]
fn a_file_that_another_process_has_locked_ends_the_scan_and_the_next_one_goes_on() {
    crate::harness::backend::on_sqlite(async |store| {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let host = Scanner { now: Some(at(60)), ..host(&store).await };
        let Raw::Sqlite(pool) = &store.raw else { unreachable!("this is SQLite") };
        let lock = pool.begin_with("begin immediate").await.unwrap();

        let error = host.until_idle().await.expect_err("the file is locked");
        assert!(matches!(&error, ScanError::Store(error) if error.is_transient()), "{error}");
        drop(lock);

        assert_eq!(host.until_idle().await.unwrap().recovered, 1);
        assert_eq!(store.letter(id(1)).await.recovery_attempts, 1);
    });
}

on_both_stores! {
    async fn a_host_that_dies_after_counting_has_its_rows_tried_again_with_that_attempt_counted(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let dead = claim(&*store, 10, at(60)).await;
        begin(&*store, dead.batch_id, &dead.ids(), &[], at(60)).await;
        let host = host(&store).await;

        assert_eq!(host.scans_at(at(90)).await.scanned, 0, "the lease lasts");
        let counts = host.scans_at(at(AFTER_THE_LEASE)).await;
        assert_eq!(counts.deferred, 1, "an attempt has just been counted, so it cools down");
        assert_eq!(store.letter(id(1)).await.recovery_attempts, 1);
        let counts = host.scans_at(at(AFTER_THE_LEASE + 30 * 60)).await;

        assert_eq!(counts.recovered, 1);
        assert_eq!(store.letter(id(1)).await.recovery_attempts, 2);
    }

    async fn a_row_whose_host_dies_at_every_attempt_ends_held_or_given_up(store: Backend) {
        store.insert("wh_dead_letters", &with(dead_letter(1), json!({ "failure_reason": 6 }))).await;
        let host = host(&store).await;
        let mut now = 60;
        for _ in 0..5 {
            let dead = claim(&*store, 10, at(now)).await;
            assert_eq!(dead.ids(), [id(1)]);
            begin(&*store, dead.batch_id, &dead.ids(), &[], at(now)).await;
            now += AFTER_THE_LEASE;
            reprieve::store::RecoveryStore::rescue(&*store.shared(), 5, Some(at(now))).await.unwrap();
        }

        let counts = host.scans_at(at(now)).await;

        assert_eq!(counts.permanently_failed, 1, "five attempts were counted, which is all that LeaseExpired has");
        assert!(!is_back(&store, 1).await);
    }

    async fn a_host_that_dies_while_deciding_costs_a_policy_error_and_a_minute(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        claim(&*store, 10, at(60)).await;
        let host = host(&store).await;

        let counts = host.scans_at(at(AFTER_THE_LEASE)).await;

        assert_eq!(counts.scanned, 0);
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_attempts, letter.policy_errors), (0, 1));
        assert_eq!(letter.next_recovery_at, Some(at(AFTER_THE_LEASE + 60)));
        assert_eq!(host.scans_at(at(AFTER_THE_LEASE + 60)).await.recovered, 1);
    }

    async fn a_row_that_is_held_since_hosts_die_deciding_it_is_counted_and_recorded(store: Backend) {
        store.dead(1, json!({ "policy_errors": 4 })).await;
        claim(&*store, 10, at(60)).await;
        let host = host(&store).await;

        host.scans_at(at(AFTER_THE_LEASE)).await;

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(host.metrics.totals().total_held, 1);
        let recorded = store.query("select decision, attempt, note from wh_dead_letter_decisions").await;
        let note = "its lease ended while the policy was asked";
        assert_eq!(json!(recorded), json!([{ "decision": "hold", "attempt": 0, "note": note }]));
    }

    async fn a_scan_after_shutdown_claims_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let host = Scanner { now: Some(at(60)), ..host(&store).await };
        host.shutdown.cancel();

        let counts = host.until_idle().await.unwrap();

        assert_eq!(counts.scanned, 0);
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 0));
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn a_row_that_changed_since_it_was_claimed_is_left_to_the_next_scan(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_outbox", &outbox_row(2)).await;
        let claimed = claim(&*store, 10, at(60)).await;
        store.execute("update wh_dead_letters set recovery_status = 2").await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(60)).await;

        let attempt = crate::harness::attempt(&claimed.entries()[0], crate::harness::batches::waiting(at(60), 60));
        crate::harness::settle(&*store, claimed.batch_id, &[attempt], at(60)).await;

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview, "somebody held it");
        assert!(!is_back(&store, 1).await);
    }

    async fn a_row_that_is_held_for_good_by_sql_after_the_claim_is_not_re_emitted(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(60)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(60)).await;
        store.execute("update wh_dead_letters set operator_disposition = 2").await;

        let attempt = crate::harness::attempt(&claimed.entries()[0], crate::harness::batches::waiting(at(60), 60));
        crate::harness::settle(&*store, claimed.batch_id, &[attempt], at(60)).await;

        assert!(!is_back(&store, 1).await);
        assert_eq!(store.letter(id(1)).await.recovered_at, None);
    }

    async fn a_renewed_lease_keeps_other_hosts_away_for_longer(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(60)).await;
        let renewed = store.shared().renew(claimed.batch_id, Duration::from_secs(60), Some(at(110))).await;
        assert!(renewed.unwrap());

        let host = host(&store).await;
        assert_eq!(host.scans_at(at(165)).await.scanned, 0, "until 170");
        host.scans_at(at(171)).await;
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }
}

on_both_stores! {
    async fn a_row_whose_decision_the_database_refuses_is_found_and_costs_the_others_nothing(store: Backend) {
        const VALIDATION_ERROR: i32 = 4;
        for n in 1..=9 {
            let reason = if n == 4 { VALIDATION_ERROR } else { 8 };
            store.dead(n, json!({ "failure_reason": reason })).await;
        }
        store.refuse_changes_of(id(4)).await;
        let host = Scanner { now: Some(at(60)), ..host(&store).await };

        let mut turns = 0;
        while host.until_idle().await.is_err() {
            turns += 1;
            assert!(turns < 10, "the rows about it get through");
        }

        assert_eq!(store.rows_in("wh_outbox").await, 8);
        let spent = "select sum(recovery_attempts) as n from wh_dead_letters where policy_errors = 0";
        assert_eq!(store.value(spent).await, json!(8));
        let in_hand = store.query("select ids, phase from wh_recovery_batches").await;
        assert_eq!(in_hand.len(), 1, "it is told when the lease ends: {in_hand:?}");
        assert!(in_hand[0]["ids"].to_string().contains(&id(4).to_string()), "{in_hand:?}");
    }

    async fn a_row_that_may_not_be_changed_at_all_never_stops_the_others(store: Backend) {
        store.refuse_changes_of(id(2)).await;
        for turn in 0..4 {
            for n in [2, 3 + 2 * turn, 4 + 2 * turn] {
                if n > 2 || turn == 0 {
                    store.dead(n, json!({ "failure_reason": 8 })).await;
                }
            }
            // The row has rested for a scan interval since the turn before.
            let host = Scanner { now: Some(at(60 + 700 * i64::try_from(turn).unwrap())), ..host(&store).await };

            let counts = host.until_idle().await.unwrap();

            assert_eq!((counts.recovered, counts.failed), (2, 1), "turn {turn}");
        }
        assert_eq!(store.rows_in("wh_outbox").await, 8);
        assert_eq!(store.value("select sum(recovery_attempts) as n from wh_dead_letters").await, json!(8));
    }
}

on_both_stores! {
    async fn a_retry_that_the_database_does_not_let_be_taken_stops_no_row_that_is_due(store: Backend) {
        for n in [1, 2] {
            store.dead(n, json!({ "recovery_status": 2, "operator_disposition": 1 })).await;
        }
        store.dead(3, json!({})).await;
        claim(&*store, 10, at(60)).await;
        store.dead(4, json!({})).await;
        store.refuse_changes_of(id(1)).await;
        let host = Scanner { now: Some(at(AFTER_THE_LEASE)), ..host(&store).await };

        let told = host.until_idle().await.unwrap_err();

        assert!(told.to_string().contains("never"), "{told}");
        assert!(is_back(&store, 4).await, "it was due");
        assert!(is_back(&store, 2).await, "its retry can be taken");
        assert_eq!(store.letter(id(3)).await.policy_errors, 1, "its batch is dissolved");
    }
}

#[test]
fn a_batch_that_waits_for_a_lane_is_given_back_at_shutdown_and_counts_no_attempt() {
    on_postgres(async |store| {
        for n in 1..=4 {
            store.dead(n, json!({})).await;
        }
        store.inserts_wait().await;
        let lock = store.transaction("select pg_advisory_xact_lock(42)").await;
        let options = RecoveryOptions { lanes: 1, scan_batch_size: 2, ..RecoveryOptions::default() };
        let scanner = Scanner { options: options.into(), now: Some(at(60)), ..host(&store).await };
        let shutdown = scanner.shutdown.clone();
        let scan = tokio::spawn(async move { scanner.until_idle().await });

        let begun = "select count(*) as n from wh_recovery_batches where phase = 'recovering'";
        until("one batch settles and one waits", async || store.value(begun).await == json!(2)).await;
        shutdown.cancel();
        until("the one that waits is given back", async || store.value(begun).await == json!(1)).await;
        lock.commit().await.unwrap();

        let counts = scan.await.unwrap().unwrap();
        assert_eq!((counts.scanned, counts.recovered), (2, 2));
        assert_eq!(store.value("select sum(recovery_attempts) as n from wh_dead_letters").await, json!(2));
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_recovery_batches").await), (2, 0));
    });
}
