//! `fetch_dead_letters_due`.

use super::{column, database, dead_letter};
use crate::harness::{Psql, id};

fn due(database: &Psql, now: &str, max: i64) -> String {
    database.run(&format!(
        "select string_agg(right(dead_letter_id::text, 2), ' ') from fetch_dead_letters_due('{now}', {max})"
    ))
}

#[test]
fn the_oldest_comes_first_and_only_due_rows_come() {
    let database = database();
    for (n, columns, values) in [
        (5, "", ""),
        (3, "", ""),
        (4, ", next_recovery_at", ", '2026-01-01T01:00:00Z'"),
        (6, ", recovery_status", ", 2"),
        (7, ", recovery_status", ", 4"),
        (8, ", recovery_status, recovered_at", ", 3, now()"),
        (9, ", operator_disposition", ", 2"),
        (10, ", operator_disposition", ", 3"),
        (11, ", operator_disposition", ", 1"),
    ] {
        database.run(&dead_letter(n, columns, values));
    }

    assert_eq!(due(&database, "2026-01-01T00:59:59.999999Z", 100), "03 05 0b");
    assert_eq!(due(&database, "2026-01-01T01:00:00Z", 100), "03 04 05 0b");
    assert_eq!(due(&database, "2026-01-01T01:00:00Z", 2), "03 04");
    assert_eq!(due(&database, "2026-01-01T01:00:00Z", 0), "");
}

#[test]
fn ties_go_by_id() {
    let database = database();
    for n in [3, 1, 2] {
        database.run(&dead_letter(n, "", ""));
    }
    database.run("update wh_dead_letters set dead_lettered_at = '2026-01-01T00:00:00Z'");

    assert_eq!(due(&database, "2026-02-01T00:00:00Z", 100), "01 02 03");
}

#[test]
fn every_column_but_the_bodies_is_there() {
    let database = database();
    let of_table = database.run(
        "select string_agg(attname, ' ' order by attname) from pg_attribute
         where attrelid = 'wh_dead_letters'::regclass and attnum > 0 and not attisdropped
           and attname not in ('envelope', 'source_row')",
    );
    let of_function = database.run(
        "create temporary view fetched as select * from fetch_dead_letters_due(now(), 1);
         select string_agg(attname, ' ' order by attname) from pg_attribute where attrelid = 'fetched'::regclass",
    );

    assert_eq!(of_function, of_table);
}

#[test]
fn it_reads_in_a_read_only_transaction() {
    let database = database();
    database.run(&dead_letter(1, "", ""));

    let read = database.run("begin read only; select dead_letter_id from fetch_dead_letters_due(now(), 10); commit;");

    assert_eq!(read, id(1).to_string());
}

#[test]
fn held_and_given_up_rows_are_absent() {
    let database = database();
    for n in 1..=3 {
        database.run(&dead_letter(n, "", ""));
    }

    database.run(&format!("select mark_dead_letter_holding('{}')", id(1)));
    database.run(&format!("select mark_dead_letter_permanently_failed('{}')", id(2)));

    assert_eq!(due(&database, "2027-01-01T00:00:00Z", 10), "03");
    assert_eq!(column(&database, 1, "recovery_status"), "2");
    assert_eq!(column(&database, 2, "recovery_status"), "4");
}
