//! The functions find their own tables, whatever the session's search path and time zone.

use super::{ODD_SETTINGS, database, dead_letter, move_call, outbox_message};
use crate::harness::id;

/// Tables, a function and an operator of the same names, to be met first.
const DECOYS: &str = "
  create schema decoys;
  create table decoys.wh_outbox (like public.wh_outbox);
  create table decoys.wh_dead_letters (like public.wh_dead_letters);
  create function decoys.now() returns timestamptz language sql as 'select timestamptz ''1999-01-01''';
  create function decoys.reprieve_clean_text(text) returns text language sql as 'select ''decoy''';
  create function decoys.wrong(uuid, uuid) returns boolean language sql as 'select true';
  create operator decoys.= (leftarg = uuid, rightarg = uuid, function = decoys.wrong);
";

#[test]
fn an_odd_search_path_changes_nothing() {
    let database = database();
    database.run(DECOYS);
    database.run(&outbox_message(1));
    database.run(&outbox_message(2));

    let call = move_call(1, "g1").replace("select move", "select public.move");
    let path = "set search_path = decoys, pg_catalog, public;";
    assert_eq!(database.run(&format!("{path} {call}")), id(1).to_string());
    assert_eq!(database.run("select count(*) from public.wh_outbox"), "1", "only the one row was moved");
    assert_eq!(database.run(&format!("set search_path = ''; select public.recover_dead_letter('{}')", id(1))), "t");
    assert_eq!(database.run(&format!("{path} select public.reset_dead_letters_for_generation('g2')")), "0");

    assert_eq!(database.run("select count(*) from public.wh_outbox"), "2");
    assert_eq!(database.run("select count(*) from decoys.wh_outbox"), "0");
    assert_eq!(database.run("select error_text from public.wh_dead_letters"), "System.TimeoutException: late");
}

#[test]
fn a_temporary_table_of_the_same_name_is_not_taken() {
    let database = database();
    database.run(&outbox_message(1));

    let printed = database
        .run(&format!("create temporary table wh_dead_letters (like public.wh_dead_letters); {}", move_call(1, "g1")));

    assert_eq!(printed, id(1).to_string());
    assert_eq!(database.run("select count(*) from public.wh_dead_letters"), "1");
}

#[test]
fn an_odd_time_zone_and_date_style_change_no_time() {
    let database = database();
    database.run(&outbox_message(1));
    let created = database.run("select created_at at time zone 'UTC' from wh_outbox");

    database.run(&format!("{ODD_SETTINGS} {}", move_call(1, "g1")));
    database.run(&format!("set timezone = 'America/St_Johns'; select recover_dead_letter('{}')", id(1)));

    assert_eq!(database.run("select created_at at time zone 'UTC' from wh_outbox"), created);
    database.run(&dead_letter(2, ", next_recovery_at", ", '2026-06-01T12:00:00Z'"));
    let due = format!("{ODD_SETTINGS} select count(*) from fetch_dead_letters_due");
    assert_eq!(database.run(&format!("{due}('2026-06-01T11:59:59Z', 10)")), "0");
    assert_eq!(database.run(&format!("{due}('2026-06-01T12:00:00Z', 10)")), "1");
}
