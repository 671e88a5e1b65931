//! Draining by nothing but SQL.

use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Row};

use super::{ODD_SETTINGS, database, get_stream_events, perspective_events};
use crate::harness::backend::run;
use crate::harness::rows::event;
use crate::harness::{Psql, instance, migrated_database, source, stream};

const NOON: &str = "timestamptz '2026-06-01T12:00:00Z'";

fn claimed(numbers: &[(u64, u64)]) -> String {
    numbers.iter().map(|(n, attempts)| format!("{}|{attempts}", source(*n))).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_of_the_three_claims_counts_takeovers_alone() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let claim = |who: u64, minutes: u32| {
        format!(
            "select event_work_id, attempts from claim_and_fetch_pending_perspective_events(
               '{}', 'totals', '{}', 60, {NOON} + interval '{minutes} minutes')",
            stream(1),
            instance(who)
        )
    };
    let orphans = |who: u64, minutes: u32| {
        let now = format!("{NOON} + interval '{minutes} minutes'");
        format!("select event_work_id from claim_orphaned_perspective_events('{}', 10, {now}, 60)", instance(who))
    };
    let later = |minutes: u32| format!("{NOON} + interval '{minutes} minutes'");

    assert_eq!(database.run(&get_stream_events(1, NOON)), claimed(&[(1, 1)]));
    assert_eq!(database.run(&claim(2, 4)), "", "five minutes are the default");
    assert_eq!(database.run(&claim(2, 5)), claimed(&[(1, 2)]));
    assert_eq!(database.run(&claim(2, 30)), claimed(&[(1, 2)]));
    assert_eq!(database.run(&orphans(2, 60)), "", "its own are no orphans");
    assert_eq!(database.run(&orphans(3, 60)), source(1).to_string());
    assert_eq!(database.run(&get_stream_events(3, &later(61))), claimed(&[(1, 3)]));
    assert_eq!(database.run(&get_stream_events(4, &later(90))), claimed(&[(1, 4)]));
}

#[test]
fn a_claim_brings_everything_that_applying_needs() {
    let database = database();
    database.run(&perspective_events(&[7]));

    let row = database.run(&format!(
        "select stream_id, event_id, event_work_id, perspective_name, event_type, event_data, metadata, commit_sequence,
           attempts from get_stream_events('{}', array['{}'::uuid], null)",
        instance(1),
        stream(1)
    ));

    let (stream, event, work) = (stream(1), event(7), source(7));
    assert_eq!(row, format!("{stream}|{event}|{work}|totals|OrderPlaced|{{\"order\": 7}}|{{}}|7|1"));
}

#[test]
fn reports_take_what_the_caller_owns_and_failures_wait() {
    let database = database();
    database.run(&perspective_events(&[1, 2, 3]));
    database.run(&get_stream_events(1, "now()"));
    let ids = format!("array['{}', '{}', '{}']::uuid[]", source(3), source(1), source(9));

    assert_eq!(database.run(&format!("select complete_perspective_events('{}', {ids})", instance(2))), "");
    let done = database.run(&format!("select count(*) from complete_perspective_events('{}', {ids})", instance(1)));
    assert_eq!(done, "2");
    let failed = database.run(&format!(
        "select event_work_id from fail_perspective_events('{}', array['{}'::uuid], array[E'a\\tb'], array[8])",
        instance(1),
        source(2)
    ));
    assert_eq!(failed, source(2).to_string());
    assert_eq!(
        database.run(&format!(
            "select error, failure_reason, instance_id is null, attempts,
               scheduled_for > now() and scheduled_for <= now() + interval '1 second'
             from wh_perspective_events where event_work_id = '{}'",
            source(2)
        )),
        "a\tb|8|t|1|t"
    );
    let short = format!("select fail_perspective_events('{}', array['{}'::uuid], null, null)", instance(1), source(2));
    assert_eq!(database.run(&short), "", "it is nobody's now");
}

#[test]
fn a_claim_for_nobody_is_refused() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let stream = stream(1);
    for call in [
        format!("get_stream_events(null, array['{stream}'::uuid], now())"),
        format!("claim_and_fetch_pending_perspective_events('{stream}', 'totals', null, 60, now())"),
        "claim_orphaned_perspective_events(null, 10)".to_owned(),
    ] {
        assert!(database.refuses(&format!("select * from {call}")).contains("p_instance_id is NULL"), "{call}");
    }
    assert_eq!(database.run("select attempts from wh_perspective_events"), "0");
}

#[test]
fn an_odd_session_changes_nothing() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let claim = get_stream_events(1, NOON).replace("from get", "from public.get");

    assert_eq!(database.run(&format!("{ODD_SETTINGS} set search_path = ''; {claim}")), claimed(&[(1, 1)]));

    assert_eq!(
        database.run("select lease_expiry at time zone 'UTC' from wh_perspective_events"),
        "2026-06-01 12:05:00"
    );
}

#[test]
fn two_claims_under_way_at_once_do_not_share_a_stream_nor_wait_for_each_other() {
    let url = migrated_database();
    Psql::new(&url).run(&perspective_events(&[1]));
    run(async {
        let pool = PgPool::connect(&url).await.unwrap();
        let mut one = pool.begin().await.unwrap();
        let first = sqlx::query(AssertSqlSafe(get_stream_events(1, NOON))).fetch_all(&mut *one).await.unwrap();
        assert_eq!(first.len(), 1);
        // An event that the first claim has not seen, so no row of it is locked.
        Psql::new(&url).run(&perspective_events(&[2]));

        let mut two = pool.begin().await.unwrap();
        let second = sqlx::query(AssertSqlSafe(get_stream_events(2, NOON))).fetch_all(&mut *two).await.unwrap();
        assert!(second.is_empty(), "the stream is just being claimed");
        one.commit().await.unwrap();
        let again = sqlx::query(AssertSqlSafe(get_stream_events(2, NOON))).fetch_all(&mut *two).await.unwrap();
        assert!(again.is_empty(), "the next statement sees the lease");
        two.commit().await.unwrap();

        let owner = sqlx::query(AssertSqlSafe(get_stream_events(1, NOON))).fetch_all(&pool).await.unwrap();
        assert_eq!(owner.iter().map(|row| row.get::<i32, _>(1)).collect::<Vec<_>>(), [1, 1]);
    });
}

#[test]
fn a_row_that_somebody_has_locked_is_left_out_without_waiting() {
    let url = migrated_database();
    Psql::new(&url).run(&perspective_events(&[1, 2]));
    run(async {
        let pool = PgPool::connect(&url).await.unwrap();
        let mut other = pool.begin().await.unwrap();
        let lock = format!("select from wh_perspective_events where event_work_id = '{}' for update", source(1));
        sqlx::query(AssertSqlSafe(lock)).execute(&mut *other).await.unwrap();

        assert_eq!(Psql::new(&url).run(&get_stream_events(1, NOON)), claimed(&[(2, 1)]));
        let in_order = format!(
            "select count(*) from reprieve_claim_events('{}', array['{}'::uuid], null, true, 60, {NOON})",
            instance(1),
            stream(1)
        );
        assert_eq!(Psql::new(&url).run(&in_order), "0", "in order, nothing behind it is taken");
        other.rollback().await.unwrap();
    });
}

#[test]
fn perspectives_of_one_stream_are_claimed_independently_while_the_whole_stream_is_not() {
    let url = migrated_database();
    Psql::new(&url).run(&perspective_events(&[1]));
    Psql::new(&url).run(&format!(
        "insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
           values ('{}', '{}', 'invoices', '{}')",
        source(2),
        stream(1),
        event(1)
    ));
    let claim = |who: u64, name: &str| {
        let (stream, instance) = (stream(1), instance(who));
        format!(
            "select event_work_id, attempts from
               claim_and_fetch_pending_perspective_events('{stream}', '{name}', '{instance}', 60, {NOON})"
        )
    };
    run(async {
        let pool = PgPool::connect(&url).await.unwrap();
        let mut one = pool.begin().await.unwrap();
        assert_eq!(sqlx::query(AssertSqlSafe(claim(1, "totals"))).fetch_all(&mut *one).await.unwrap().len(), 1);

        assert_eq!(Psql::new(&url).run(&claim(3, "totals")), "");
        assert_eq!(Psql::new(&url).run(&get_stream_events(3, NOON)), "");
        assert_eq!(Psql::new(&url).run(&claim(2, "invoices")), claimed(&[(2, 1)]));
        one.commit().await.unwrap();
    });
}

#[test]
fn claims_and_reports_in_a_transaction_are_taken_back_with_it() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let complete = format!("select complete_perspective_events('{}', array['{}'::uuid]);", instance(1), source(1));

    database.run(&format!("begin; {} {complete} rollback;", get_stream_events(1, NOON)));

    assert_eq!(database.run("select attempts, processed_at is null from wh_perspective_events"), "0|t");
}

#[test]
fn an_instance_shows_that_it_is_alive() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let beat = |who: u64, metadata: &str, now: &str| {
        database
            .run(&format!("select heartbeat_service_instance('{}', 'shop', 'h1', 7, {metadata}, {now})", instance(who)))
    };
    beat(1, "'{\"build\": 3}'", NOON);
    beat(1, "null", &format!("{NOON} + interval '10 minutes'"));
    database.run(&get_stream_events(1, NOON));
    let orphans = |minutes: u32| {
        let now = format!("{NOON} + interval '{minutes} minutes'");
        database.run(&format!("select count(*) from claim_orphaned_perspective_events('{}', 10, {now})", instance(2)))
    };

    assert_eq!(orphans(15), "0");
    assert_eq!(database.run("select metadata ->> 'build' from wh_service_instances"), "3");
    let stale = format!("select * from remove_stale_service_instances({NOON} + interval '16 minutes')");
    assert_eq!(database.run(&stale), instance(1).to_string());
    assert_eq!(orphans(16), "1");
}

#[test]
fn arguments_that_make_no_sense_are_refused_by_name() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let (who, stream) = (instance(1), stream(1));
    for (call, expected) in [
        (format!("get_stream_events('{who}', array['{stream}'::uuid], {NOON}, 0)"), "p_lease_seconds is 0"),
        (format!("get_stream_events('{who}', array['{stream}'::uuid], {NOON}, -5)"), "p_lease_seconds is -5"),
        (
            format!("claim_and_fetch_pending_perspective_events('{stream}', null, '{who}', 60, {NOON})"),
            "p_perspective_name is NULL",
        ),
        (format!("claim_orphaned_perspective_events('{who}', -1, {NOON})"), "p_max is -1"),
        (format!("claim_orphaned_perspective_events('{who}', null, {NOON})"), "p_max is NULL"),
    ] {
        let refused = database.refuses(&format!("select * from {call}"));
        assert!(refused.contains(expected) && refused.contains("expected"), "{call}: {refused}");
    }
    assert_eq!(database.run("select attempts from wh_perspective_events"), "0");
}

#[test]
fn a_claim_of_very_many_streams_leaves_room_in_the_servers_table_of_locks() {
    let database = database();
    database.run(&perspective_events(&[1]));
    let many = format!("array(select gen_random_uuid() from generate_series(1, 20000)) || '{}'::uuid", stream(1));
    let counted = database.run(&format!(
        "begin;
         select count(*) from get_stream_events('{}', {many}, {NOON});
         select count(*) < 1100 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid();
         rollback;",
        instance(1)
    ));
    assert_eq!(counted, "1\nt");
}

#[test]
fn a_row_with_the_most_attempts_that_a_number_holds_keeps_no_other_from_being_claimed() {
    let database = database();
    database.run(&perspective_events(&[1, 2]));
    database
        .run(&format!("update wh_perspective_events set attempts = 2147483647 where event_work_id = '{}'", source(1)));
    assert_eq!(database.run(&get_stream_events(1, NOON)), claimed(&[(1, 2_147_483_647), (2, 1)]));
}
