//! Settling a batch at once: what a host's batch without trouble takes, and what it leaves alone.

use super::{column, database, dead_letter, move_call, outbox_message};
use crate::harness::{Psql, id, source};

/// Makes a batch of dead letters whose attempts are counted, and settles it at once; whether that could be done.
fn settle_at_once(database: &Psql, ns: &[u64]) -> String {
    let ids: Vec<String> = ns.iter().map(|n| id(*n).to_string()).collect();
    let ids = format!("'{{{}}}'::uuid[]", ids.join(","));
    database.run(&format!(
        "insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, started_at, expires_at)
         values ('{batch}', '{batch}', 'g1', 'recovering', {ids}, now(), now() + interval '1 minute');
         select reprieve_settle_at_once('{batch}', {ids},
           array(select distinct source_table from wh_dead_letters where dead_letter_id = any (i)), array_fill(null::text, array[cardinality(i)]),
           array(select gen_random_uuid() from unnest(i)), array_fill('recover'::text, array[cardinality(i)]),
           array_fill('Careful'::text, array[cardinality(i)]), array_fill('abc'::text, array[cardinality(i)]),
           array_fill(1, array[cardinality(i)]), array_fill('{{}}'::text, array[cardinality(i)]),
           array_fill('{{}}'::text, array[cardinality(i)]), array_fill(null::text, array[cardinality(i)]), now())
         from (select {ids}) as given (i);",
        batch = id(1000),
    ))
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
