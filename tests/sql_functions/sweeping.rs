//! `reset_dead_letters_for_generation`.

use super::{column, database, dead_letter};

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
fn a_tag_is_data() {
    let database = database();
    database.run(&dead_letter(1, "", ""));

    assert_eq!(database.run("select reset_dead_letters_for_generation('it''s {a,\"b\"} \\ $$')"), "1");
    assert_eq!(database.run("select reset_dead_letters_for_generation('it''s {a,\"b\"} \\ $$')"), "0");
    assert_eq!(column(&database, 1, "retried_on_generations[1] = 'it''s {a,\"b\"} \\ $$'"), "t");
}
