//! `recover_dead_letter`.

use super::{column, database, dead_letter, move_call, outbox_message};
use crate::harness::{Psql, id, source};

fn recover(database: &Psql, n: u64) -> String {
    database.run(&format!("select recover_dead_letter('{}')", id(n)))
}

#[test]
fn every_column_comes_back_under_the_original_id() {
    let database = database();
    database.run(
        "alter table wh_outbox add column tenant text default 'acme', add column tags text[] default '{a,\"b c\"}',
           add column price numeric(30, 12) default 12345678901234567.123456789012, add column raw bytea default '\\x00ff',
           add column span interval default '1 day 02:00', add column doubled int generated always as (attempts * 2) stored,
           add column number bigint generated always as identity;",
    );
    database.run(&outbox_message(1));
    let columns = "message_id, destination, message_type, envelope_type, event_data, metadata, scope, stream_id,
      partition_number, is_event, created_at, tenant, tags, price, raw, span";
    let before = database.run(&format!("select {columns} from wh_outbox"));
    database.run(&move_call(1, "g1"));

    assert_eq!(recover(&database, 1), "t");

    assert_eq!(database.run(&format!("select {columns} from wh_outbox")), before);
    let afresh = database.run(
        "select status, attempts, failure_reason, doubled, num_nonnulls(error, instance_id, lease_expiry, scheduled_for,
           published_at, processed_at) from wh_outbox",
    );
    assert_eq!(afresh, "1|0|99|0|0");
}

#[test]
fn it_answers_true_once() {
    let database = database();
    database.run(&outbox_message(1));
    database.run(&move_call(1, "g1"));

    assert_eq!(recover(&database, 1), "t");
    assert_eq!(recover(&database, 1), "f");
    assert_eq!(recover(&database, 99), "f");
    let state = "recovery_status || ' ' || recovery_attempts || ' ' || (recovered_at is not null) || ' '
      || retried_on_generations::text";
    assert_eq!(column(&database, 1, state), "3 1 true {g1}");
    assert_eq!(database.run("select count(*) from wh_outbox"), "1");
}

#[test]
fn a_zero_stream_comes_back_as_null() {
    let database = database();
    database.run(
        &outbox_message(1).replace("0190a000-0000-7000-a000-000000000001", "00000000-0000-0000-0000-000000000000"),
    );
    database.run(&move_call(1, "g1"));
    assert_eq!(column(&database, 1, "stream_id is null"), "t");

    assert_eq!(recover(&database, 1), "t");

    assert_eq!(database.run("select stream_id is null from wh_outbox"), "t");
}

#[test]
fn a_conflict_holds_the_row_with_a_note() {
    let database = database();
    database.run(&dead_letter(1, "", ""));
    database.run(&outbox_message(1));

    assert_eq!(recover(&database, 1), "f");

    assert_eq!(
        column(&database, 1, "recovery_status || ' ' || recovery_attempts || ' ' || (status_note ~ 'wh_outbox')"),
        "2 1 true"
    );
    assert_eq!(database.run("select attempts from wh_outbox"), "4");
}

#[test]
fn another_error_leaves_it_pending_with_the_error() {
    let database = database();
    database.run(&dead_letter(1, "", ""));
    database.run("alter table wh_outbox add constraint no_orders check (destination <> 'orders')");

    assert_eq!(recover(&database, 1), "f");

    assert_eq!(
        column(&database, 1, "recovery_status || ' ' || recovery_attempts || ' ' || (status_note ~ 'no_orders')"),
        "0 1 true"
    );
    database.run("alter table wh_outbox drop constraint no_orders");
    assert_eq!(recover(&database, 1), "t");
    assert_eq!(
        column(&database, 1, "recovery_status || ' ' || recovery_attempts || coalesce(status_note, ' none')"),
        "3 2 none"
    );
}

#[test]
fn a_perspective_row_without_its_event_is_held() {
    let database = database();
    database.run(&format!(
        "insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
           values ('{}', '{}', 'totals', '{}');
         select move_to_dead_letters('{}', 'wh_perspective_events', '{}', 5, null, null, 'g1');",
        source(1),
        id(9),
        id(8),
        id(1),
        source(1)
    ));

    assert_eq!(recover(&database, 1), "f");

    assert_eq!(column(&database, 1, "recovery_status || ' ' || (status_note ~ 'event')"), "2 true");
    assert_eq!(database.run("select count(*) from wh_perspective_events"), "0");
}

#[test]
fn a_message_that_dies_again_is_its_next_incarnation() {
    let database = database();
    database.run(&outbox_message(1));
    database.run(&move_call(1, "g1"));
    recover(&database, 1);
    database.run(&move_call(1, "g1").replacen(&id(1).to_string(), &id(2).to_string(), 1));

    let state = "incarnation || ' ' || recovery_attempts || ' ' || (last_recovery_at is not null) || ' '
      || retried_on_generations::text";
    assert_eq!(column(&database, 2, state), "2 1 true {g1}");
    assert_eq!(recover(&database, 2), "t");
    assert_eq!(column(&database, 2, "recovery_attempts"), "2");
}
