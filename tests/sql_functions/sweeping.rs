//! `reset_dead_letters_for_generation`.

use super::{column, database, dead_letter};
use crate::harness::id;

#[test]
fn held_rows_are_swept_and_given_up_rows_and_indefinite_holds_are_not() {
    let database = database();
    database.run(&dead_letter(1, ", next_recovery_at", ", '2999-01-01T00:00:00Z'"));
    database.run(&dead_letter(2, ", recovery_status", ", 2"));
    database.run(&dead_letter(3, ", recovery_status", ", 4"));
    database.run(&dead_letter(4, ", recovery_status, operator_disposition", ", 2, 2"));
    database.run(&dead_letter(5, ", recovery_status, recovered_at", ", 3, now()"));

    assert_eq!(database.run("select reset_dead_letters_for_generation('g2')"), "2");
    assert_eq!(database.run("select reset_dead_letters_for_generation('g2')"), "0");

    for n in [1, 2] {
        let state = "recovery_status || ' ' || replay_credit || ' ' || retried_on_generations::text || ' '
          || (next_recovery_at <= now())";
        assert_eq!(column(&database, n, state), "0 g2 {g2} true");
    }
    assert_eq!(database.run("select count(*) from fetch_dead_letters_due(now(), 10)"), "2");
    assert_eq!(column(&database, 4, "recovery_status || coalesce(replay_credit, ' none')"), "2 none");
}

#[test]
fn a_row_of_the_generation_itself_is_counted_without_credit() {
    let database = database();
    database.run(&dead_letter(1, ", recovery_status", ", 2"));

    assert_eq!(database.run("select reset_dead_letters_for_generation('g1')"), "1");
    assert_eq!(column(&database, 1, "recovery_status || coalesce(replay_credit, ' none')"), "2 none");
    assert_eq!(database.run("select reset_dead_letters_for_generation('g1')"), "0");
}

#[test]
fn a_chunk_looks_at_no_more_rows_than_it_says_even_where_all_of_them_are_swept() {
    let database = database();
    for n in 1..=5 {
        let swept = if n < 4 { "{g2}" } else { "{}" };
        database.run(&dead_letter(n, ", retried_on_generations", &format!(", '{swept}'")));
    }
    let chunk = |after: &str| {
        database.run(&format!(
            "select s.swept || ' of ' || s.looked_at || ', up to ' || s.last_id
             from (select null::timestamptz as last_at, null::uuid as last_id {after}) p,
                 reprieve_sweep('g2', now(), '0', 0, 0, p.last_at, p.last_id, 2) s"
        ))
    };
    let after = |n| {
        let place = "select dead_lettered_at, dead_letter_id from wh_dead_letters where dead_letter_id";
        format!("where false union all {place} = '{}'", id(n))
    };

    assert_eq!(chunk(""), format!("0 of 2, up to {}", id(2)));
    assert_eq!(chunk(&after(2)), format!("1 of 2, up to {}", id(4)));
    assert_eq!(chunk(&after(4)), format!("1 of 1, up to {}", id(5)));
}

#[test]
fn a_tag_is_data() {
    let database = database();
    database.run(&dead_letter(1, "", ""));

    assert_eq!(database.run("select reset_dead_letters_for_generation('it''s {a,\"b\"} \\ $$')"), "1");
    assert_eq!(database.run("select reset_dead_letters_for_generation('it''s {a,\"b\"} \\ $$')"), "0");
    assert_eq!(column(&database, 1, "retried_on_generations[1] = 'it''s {a,\"b\"} \\ $$'"), "t");
}
