//! What a host locks on PostgreSQL while somebody else has a row or a batch, and in which order.

use reprieve::model::SourceTable;
use reprieve::store::postgres::{PostgresOptions, PostgresStore};
use reprieve::store::{ClaimRequest, Move, Outcome, RecoveryStore, Rescued, Settle, StreamTerms};
use serde_json::json;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::harness::batches::{LEASE, waiting};
use crate::harness::rows::{inbox_row, moving};
use crate::harness::{
    Backend, at, attempt, backend, begin, claim, id, instance, outbox_row, settle, stream, time_text,
};

fn locked(id: Uuid) -> String {
    format!("select from wh_dead_letters where dead_letter_id = '{id}' for update")
}

/// Runs `beside` while another session has locked the first of two rows, and looks whether the second is free then, as it
/// is for somebody who locks rows in the order of their ids.
async fn waits_for_the_first<T>(store: &Backend, [first, second]: [Uuid; 2], beside: impl Future<Output = T>) -> T {
    let mut other = store.transaction(&locked(first)).await;
    let looking = async {
        store.until_one_waits().await;
        let free = format!("{} nowait", locked(second));
        sqlx::raw_sql(AssertSqlSafe(free)).execute(&mut *other).await.expect("the second row is free");
        other.rollback().await.unwrap();
    };
    tokio::join!(beside, looking).0
}

#[test]
fn rows_of_several_tables_are_settled_in_the_order_of_their_ids() {
    backend::on_postgres(async |store| {
        store.insert("wh_outbox", &outbox_row(2)).await;
        store.insert("wh_inbox", &inbox_row(5)).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 2)).await.unwrap();
        // It died before, and so comes first in the batch.
        let request = Move { now: Some(at(9)), ..moving(SourceTable::Inbox, 5) };
        store.move_to_dead_letters(&request).await.unwrap();
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
        let attempts: Vec<_> = claimed.entries().iter().map(|entry| attempt(entry, waiting(at(100), 60))).collect();
        let streams = StreamTerms::default();
        let request =
            Settle { batch_id: claimed.batch_id, attempts: &attempts, streams, refusal: None, now: Some(at(101)) };

        let settled = waits_for_the_first(&store, [id(2), id(5)], store.settle(&request)).await.unwrap();

        assert!(settled.iter().all(|row| row.outcome == Outcome::Recovered), "{settled:?}");
    });
}

#[test]
fn rows_of_several_batches_are_rescued_in_the_order_of_their_ids() {
    backend::on_postgres(async |store| {
        for (n, died) in [(5, 1), (9, 2), (1, 3), (7, 4)] {
            store.dead(n, json!({ "dead_lettered_at": time_text(at(died)) })).await;
        }
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(5), id(9)]);
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(1), id(7)]);

        let rescued = waits_for_the_first(&store, [id(1), id(5)], store.rescue(5, Some(at(161)))).await.unwrap();

        assert_eq!(rescued, Rescued { batches: 2, attempts: 0, policy_errors: 4, held: vec![] });
    });
}

#[test]
fn a_batch_that_somebody_is_settling_is_not_due_and_waited_for_a_moment_only() {
    backend::on_postgres(async |store| {
        store.dead(1, json!({})).await;
        let batch_id = claim(&*store, 10, at(100)).await.batch_id;
        let due = async || store.due("g1", Some(at(161))).await.unwrap().due_now;
        let settling = store.transaction("delete from wh_recovery_batches").await;

        assert!(!due().await, "nothing can be done about it");
        let error = store.release(batch_id).await.unwrap_err();
        assert!(error.is_transient(), "{error}");

        settling.rollback().await.unwrap();
        assert!(due().await, "its lease has ended");
        store.release(batch_id).await.unwrap();
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    });
}

#[test]
fn a_row_behind_one_that_an_operator_settled_in_a_batch_is_due_when_the_batch_ends() {
    backend::on_postgres(async |store| {
        store.dead(1, json!({ "stream_id": stream(1) })).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &[id(1)], &[], at(100)).await;
        let behind = json!({
            "stream_id": stream(1), "deferral": "stream", "next_recovery_at": time_text(at(50_000)),
        });
        store.dead(2, behind).await;
        let batch = store.transaction(&locked(id(2))).await;
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();
        batch.rollback().await.unwrap();
        assert!(store.letter(id(2)).await.deferral.is_some(), "it was locked when it could have been woken");

        let settled =
            settle(&*store, claimed.batch_id, &[attempt(&claimed.entries()[0], waiting(at(100), 60))], at(101)).await;

        assert_eq!(settled[0].outcome, Outcome::Lost);
        assert_eq!(store.letter(id(2)).await.deferral, None);
    });
}

#[test]
fn a_claim_through_a_proxy_sees_the_claim_that_it_waited_for() {
    backend::on_postgres(async |store| {
        store.dead(1, json!({})).await;
        store
            .execute(
                "do $$ begin execute format('alter database %I set default_transaction_isolation to \
                      ''repeatable read''', current_database()); end $$",
            )
            .await;
        let options = PostgresOptions { pooled: true, ..PostgresOptions::default() };
        let pooled = PostgresStore::connect(&store.url, options).await.unwrap();
        let claiming = "select pg_advisory_xact_lock(hashtextextended('reprieve claim public', 0))";
        let mut other = store.transaction(claiming).await;
        let request = ClaimRequest {
            batch_id: Uuid::now_v7(),
            owner: instance(1),
            generation: "g1",
            max: 10,
            after: None,
            whole_streams: false,
            lease: LEASE,
            now: Some(at(100)),
        };
        let meanwhile = async {
            store.until_one_waits().await;
            let claims = format!(
                "select reprieve_claim_rows(gen_random_uuid(), gen_random_uuid(), 'g1', 10, null, null, null, false, 60, '{}')",
                time_text(at(100))
            );
            sqlx::raw_sql(AssertSqlSafe(claims)).execute(&mut *other).await.unwrap();
            other.commit().await.unwrap();
        };

        let (claim, ()) = tokio::join!(pooled.claim(&request), meanwhile);

        assert_eq!(claim.unwrap().rows.len(), 0, "the row is in another batch");
        assert_eq!(store.rows_in("wh_recovery_batches").await, 1);
    });
}
