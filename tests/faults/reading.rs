//! Large bodies, a large backlog and what is dead cost a claim nothing.

use std::sync::Arc;

use reprieve::recovery::{RecoveryOptions, Scanner};
use serde_json::Value;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};

use crate::harness::at;
use crate::harness::backend::{Backend, on_postgres};
use crate::harness::raw::Raw;
use crate::recovery::host::{Told, host};
use crate::recovery::loops::until;

/// A claim at the time 60, undone again.
const CLAIM: &str = "explain (analyze, buffers, format json)
    select * from reprieve_claim_rows('01900000-0000-7000-8000-000000000000', '01900000-0000-7000-8000-000000000001', 'g1',
        200, null, null, null, false, 60, timestamptz '2026-01-01T00:01:00Z')";

/// What an explained statement did; it is undone.
async fn explained(session: &mut PgConnection, statement: &str) -> Value {
    let mut undone = session.begin().await.unwrap();
    let statement = AssertSqlSafe(statement.to_owned());
    let mut explained: Value = sqlx::query_scalar(statement).fetch_one(&mut *undone).await.unwrap();
    undone.rollback().await.unwrap();
    explained[0]["Plan"].take()
}

/// The pages that it looked at.
fn pages(plan: &Value) -> u64 {
    plan["Shared Hit Blocks"].as_u64().unwrap() + plan["Shared Read Blocks"].as_u64().unwrap()
}

/// Pages that a claim of ten due rows looks at, in a session that has read the catalogue before.
async fn pages_of_a_claim(store: &Backend) -> u64 {
    let mut session = session(store).await;
    explained(&mut session, CLAIM).await;
    let plan = explained(&mut session, CLAIM).await;
    assert_eq!(plan["Actual Rows"], 11, "what a claim tells of itself, and ten dead letters: {plan}");
    pages(&plan)
}

async fn session(store: &Backend) -> PoolConnection<Postgres> {
    let Raw::Postgres(pool) = &store.raw else { unreachable!("this is PostgreSQL") };
    pool.acquire().await.unwrap()
}

#[test]
fn ten_due_rows_with_bodies_of_one_and_a_half_megabytes_are_claimed_without_reading_a_body_or_a_row_that_is_not_due() {
    on_postgres(async |store| {
        store
            .execute(
                "insert into wh_dead_letters (dead_letter_id, source_table, source_id, message_type, failure_reason,
                     attempts_when_dlq, generation, envelope, dead_lettered_at, next_recovery_at)
                 select gen_random_uuid(), 'wh_outbox', gen_random_uuid(), 'M', 8, 1, 'g1',
                     case when n <= 10 then jsonb_build_object('event_data', jsonb_build_object('b',
                         (select string_agg(md5(n::text || i), '') from generate_series(1, 47000) i)))
                     else '{}' end,
                     '2026-01-01T00:00:00Z',
                     case when n > 10 then timestamptz '2026-01-02T00:00:00Z' end
                 from generate_series(1, 20000) n",
            )
            .await;
        store.execute("vacuum analyze wh_dead_letters").await;
        let size = store.value("select pg_table_size('wh_dead_letters') / 8192 as n from (values (1)) v").await;
        assert!(size.as_u64().unwrap() > 2000, "there is much that could be read: {size} pages");

        let pages = pages_of_a_claim(&store).await;
        assert!(pages < 100, "{pages} pages were looked at");
    });
}

#[test]
fn batches_that_were_settled_since_the_last_vacuum_cost_a_claim_nothing() {
    on_postgres(async |store| {
        due_rows(&store, 10).await;
        store.execute("alter table wh_recovery_batches set (autovacuum_enabled = off)").await;
        let batches =
            "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, started_at, expires_at)
            select gen_random_uuid(), gen_random_uuid(), 'g1', 'recovering',
                array(select gen_random_uuid() from generate_series(1, 200)), now(), now()
            from generate_series(1, 500)";
        store.execute(batches).await;
        store.execute("delete from wh_recovery_batches").await;
        let size = store.value("select pg_relation_size('wh_recovery_batches') / 8192 as n from (values (1)) v").await;
        assert!(size.as_u64().unwrap() > 200, "there is much that could be read: {size} pages");

        // Transactions of other tests that began before the last batch was deleted have to end first.
        until("a claim passes over them", async || pages_of_a_claim(&store).await < 100).await;
    });
}

/// Dead letters of so many outbox messages, all due.
async fn due_rows(store: &Backend, rows: u32) {
    let insert = format!(
        "insert into wh_dead_letters (dead_letter_id, source_table, source_id, message_type, failure_reason,
             attempts_when_dlq, generation, envelope, dead_lettered_at)
         select gen_random_uuid(), 'wh_outbox', gen_random_uuid(), 'M', 8, 1, 'g1',
             '{{\"event_data\": {{}}, \"metadata\": {{}}}}', '2026-01-01T00:00:00Z'
         from generate_series(1, {rows})"
    );
    store.execute(&insert).await;
}

#[test]
fn what_was_settled_is_looked_at_once_and_passed_over_from_then_on() {
    on_postgres(async |store| {
        due_rows(&store, 1000).await;
        store.execute("alter table wh_dead_letters set (autovacuum_enabled = off)").await;
        let settled = "update wh_dead_letters set recovery_status = 3, recovered_at = now()";
        store.execute(settled).await;
        let looks_over = "explain (analyze, buffers, format json) select reprieve_look_over('2025-01-01T00:00:00Z',
            '2025-01-01T00:00:00Z', '00000000-0000-0000-0000-000000000000', '2026-01-02T00:00:00Z',
            '2026-01-02T00:00:00Z', '00000000-0000-0000-0000-000000000000')";

        let mut session = session(&store).await;
        assert!(pages(&explained(&mut session, looks_over).await) > 1000, "it looks at each row");
        // Transactions of other tests that began before the rows were settled have to end first.
        until("it passes over them", async || pages(&explained(&mut session, looks_over).await) < 100).await;
    });
}

#[test]
fn a_pass_looks_over_what_it_has_settled() {
    on_postgres(async |store| {
        store.count_calls().await;
        due_rows(&store, 1000).await;
        let host = host(&store).await;
        let options = RecoveryOptions { scan_batch_size: 10, ..RecoveryOptions::clone(&host.options) };
        let host = Scanner { store: store.another().await, options: Arc::new(options), ..host };

        assert_eq!(host.scans_at(at(60)).await.recovered, 1000);
        // Its sessions tell what they did at their end.
        drop(host);
        until("it looked over nearly all", async || store.calls(&["reprieve_look_over"]).await >= 10).await;
    });
}

#[test]
fn a_snapshot_that_is_held_for_long_keeps_no_row_from_being_recovered() {
    on_postgres(async |store| {
        let Raw::Postgres(pool) = &store.raw else { unreachable!("this is PostgreSQL") };
        let mut report = pool.begin().await.unwrap();
        sqlx::query("set transaction isolation level repeatable read").execute(&mut *report).await.unwrap();
        sqlx::query("select count(*) from wh_dead_letters").execute(&mut *report).await.unwrap();
        due_rows(&store, 1000).await;

        assert_eq!(host(&store).await.scans_at(at(60)).await.recovered, 1000);
        let seen: i64 =
            sqlx::query_scalar("select count(*) from wh_dead_letters").fetch_one(&mut *report).await.unwrap();
        assert_eq!(seen, 0, "the snapshot was held until now");
    });
}
