//! Settling a batch at once: what a host's batch without trouble takes, and what it leaves alone.

use super::{ODD_SETTINGS, column, database, dead_letter, move_call, outbox_message};
use crate::harness::{Psql, id, source};

/// Settles a batch of dead letters at once; whether that could be done.
fn settle_at_once(database: &Psql, ns: &[u64]) -> String {
    database.run(&settle_call(ns))
}

/// Makes a batch of dead letters whose attempts are counted, and the call that settles it at once.
fn settle_call(ns: &[u64]) -> String {
    let ids: Vec<String> = ns.iter().map(|n| id(*n).to_string()).collect();
    let ids = format!("'{{{}}}'::uuid[]", ids.join(","));
    format!(
        "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, started_at, expires_at)
         values ('{batch}', '{batch}', 'g1', 'recovering', {ids}, now(), now() + interval '1 minute');
         select reprieve_settle_at_once('{batch}', {ids},
           array(select distinct source_table from wh_dead_letters where dead_letter_id = any (i)), array_fill(null::text, array[cardinality(i)]),
           array(select gen_random_uuid() from unnest(i)), array_fill(1, array[cardinality(i)]),
           array_fill('{{}}'::text, array[cardinality(i)]), array_fill(1, array[cardinality(i)]),
           array['Careful'], array['abc'], array['{{}}'], now())
         from (select {ids}) as given (i);",
        batch = id(1000),
    )
}

/// What is there of a batch, of source rows and of decisions.
fn left(database: &Psql) -> String {
    database.run(
        "select (select count(*) from wh_recovery_batches) || ' ' || (select count(*) from wh_outbox) || ' ' ||
           (select count(*) from wh_perspective_events) || ' ' || (select count(*) from wh_dead_letter_decisions)",
    )
}

fn dead_outbox_messages(database: &Psql, ns: &[u64]) {
    for n in ns {
        database.run(&outbox_message(*n));
        database.run(&move_call(*n, "g1"));
    }
}

/// An event of a perspective, dead, whose event is in the store.
fn dead_perspective_event(database: &Psql, n: u64) {
    database.run(&format!(
        "insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata)
           values ('{event}', '{stream}', {n}, 'Placed', '{{}}', '{{}}');
         insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
           values ('{work}', '{stream}', 'totals', '{event}');
         select move_to_dead_letters('{letter}', 'wh_perspective_events', '{work}', 5, null, null, 'g1');",
        event = id(n + 500),
        stream = id(900),
        work = source(n),
        letter = id(n),
    ));
}

#[test]
fn a_batch_of_several_tables_is_settled_at_once_in_the_order_given() {
    let database = database();
    dead_outbox_messages(&database, &[1, 2]);
    dead_perspective_event(&database, 3);

    assert_eq!(settle_at_once(&database, &[2, 3, 1]), "t");

    assert_eq!(left(&database), "0 2 1 3");
    let order = database.run("select string_agg(event_data ->> 'order', ',' order by ctid) from wh_outbox");
    assert_eq!(order, "2,1");
    for n in [1, 2, 3] {
        let state = "recovery_status || ' ' || recovery_attempts || ' ' || retried_on_generations::text";
        assert_eq!(column(&database, n, state), "3 1 {g1}");
    }
}

#[test]
fn a_row_in_the_way_leaves_the_whole_batch_to_be_settled_apart() {
    let database = database();
    dead_outbox_messages(&database, &[1, 2]);
    database.run(&outbox_message(2));

    assert_eq!(settle_at_once(&database, &[1, 2]), "f");

    assert_eq!(left(&database), "1 1 0 0");
    assert_eq!(column(&database, 1, "recovery_status || ' ' || recovery_attempts"), "0 0");
}

#[test]
fn a_message_that_has_died_again_is_not_settled_at_once() {
    let database = database();
    dead_outbox_messages(&database, &[1, 2]);
    database.run(&dead_letter(3, ", incarnation", ", 2").replace(&source(3).to_string(), &source(1).to_string()));

    assert_eq!(settle_at_once(&database, &[1, 2]), "f");

    assert_eq!(left(&database), "1 0 0 0");
}

#[test]
fn a_row_that_somebody_else_settled_is_not_settled_at_once() {
    let database = database();
    dead_outbox_messages(&database, &[1, 2]);
    database.run(&format!("select mark_dead_letter_holding('{}')", id(2)));

    assert_eq!(settle_at_once(&database, &[1, 2]), "f");

    assert_eq!(left(&database), "1 0 0 0");
}

#[test]
fn a_column_that_the_application_adds_later_is_restored_before_and_after_the_next_migration() {
    let database = database();
    database.run("alter table wh_outbox add column tenant text default 'nobody'");
    dead_outbox_messages(&database, &[1, 2]);
    database.run("update wh_dead_letters set source_row = source_row || '{\"tenant\": \"acme\"}'");

    assert_eq!(settle_at_once(&database, &[1]), "t");
    let made_for = "select position('tenant' in prosrc) > 0 from pg_proc where proname = 'reprieve_restore_wh_outbox'";
    assert_eq!(database.run(made_for), "f");
    database.run("select reprieve_create_restore()");
    assert_eq!(database.run(made_for), "t");
    assert_eq!(settle_at_once(&database, &[2]), "t");

    assert_eq!(database.run("select string_agg(distinct tenant, ',') from wh_outbox"), "acme");
}

#[test]
fn columns_of_every_kind_are_restored_as_they_were_with_and_without_a_prepared_statement() {
    let database = database();
    database.run(
        "create type mood as enum ('sad', 'happy'); create domain share as numeric(5, 4) check (value <= 1);
         create type money_of as (amount numeric, currency text);
         alter table wh_outbox add column code varchar(5), add column country char(3), add column flags bit(4),
           add column price numeric(30, 12), add column raw bytea, add column span interval, add column weight float8,
           add column day date, add column tags text[], add column counts int[], add column feeling mood,
           add column part share, add column worth money_of, add column note json, add column extra jsonb,
           add column said text, add column named name, add column during tstzrange, add column noted timestamp,
           add column made_by regclass, add column absent text, add column absent_json jsonb;",
    );
    for n in [1, 2] {
        database.run(&outbox_message(n));
    }
    database.run(
        "update wh_outbox set code = 'ab', country = 'x', flags = b'0110', price = 12345678901234567.123456789012,
           raw = '\\x00ff', span = '1 day 02:00', weight = 1e-300, day = '2024-02-29', tags = '{a,\"b c\",NULL}',
           counts = '{{1,2},{3,4}}', feeling = 'happy', part = 0.25, worth = (1.50, 'EUR'), note = '[1, {\"a\": null}]',
           extra = '{\"a\": [null, true]}', said = '{\"not\": \"json\"} \"quoted\" NULL', named = 'a name',
           during = '[2024-02-03 04:05:06+07, 2024-03-04)', noted = '2024-02-03 04:05:06', made_by = '-',
           status = 1, attempts = 0, failure_reason = 99, instance_id = null, lease_expiry = null, error = null",
    );
    let rows = "select string_agg(o::text, ' ' order by message_id) from wh_outbox o";
    let before = database.run(rows);
    for n in [1, 2] {
        database.run(&move_call(n, "g1"));
    }

    assert_eq!(database.run(&format!("{ODD_SETTINGS} {}", settle_call(&[1]))), "t");
    database.run("select reprieve_create_restore()");
    assert_eq!(database.run(&format!("{ODD_SETTINGS} {}", settle_call(&[2]))), "t");

    assert_eq!(database.run(rows), before);
}

#[test]
fn events_of_perspectives_are_restored_with_columns_of_every_kind() {
    let database = database();
    database
        .run("alter table wh_perspective_events add column tags text[] default '{a,\"b c\"}', add column code char(3)");
    dead_perspective_event(&database, 1);
    database.run("select reprieve_create_restore()");

    assert_eq!(settle_at_once(&database, &[1]), "t");

    let row = "select event_work_id, perspective_name, tags, code is null from wh_perspective_events";
    assert_eq!(database.run(row), format!("{}|totals|{{a,\"b c\"}}|t", source(1)));
}

#[test]
fn a_statement_that_would_be_made_otherwise_now_is_made_again() {
    let database = database();
    let body = "select prosrc from pg_proc where proname = 'reprieve_restore_wh_outbox'";
    let made = database.run(body);
    database.run(
        "do $do$ begin
           execute replace(pg_get_functiondef('reprieve_restore_wh_outbox'::regproc), 'm.source_id', 'm.source_id /**/');
         end $do$",
    );
    assert_ne!(database.run(body), made);

    database.run("select reprieve_create_restore()");

    assert_eq!(database.run(body), made);
}

#[test]
fn a_value_that_its_column_has_become_too_short_for_is_not_cut_off() {
    let database = database();
    database.run("alter table wh_outbox add column code varchar(5), add column country char(3)");
    database.run(&outbox_message(1));
    database.run("update wh_outbox set code = 'abcde', country = 'xyz'");
    database.run(&move_call(1, "g1"));

    for narrowed in ["code type varchar(2)", "country type char(2)"] {
        database.run(&format!("alter table wh_outbox alter column {narrowed}"));
        assert_eq!(settle_at_once(&database, &[1]), "f", "{narrowed}");
        database.run("delete from wh_recovery_batches");
        database.run("alter table wh_outbox alter column code type varchar(5), alter column country type char(3)");
    }

    assert_eq!(settle_at_once(&database, &[1]), "t");
    assert_eq!(database.run("select code || ' ' || country from wh_outbox"), "abcde xyz");
}
