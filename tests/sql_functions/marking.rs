//! `mark_dead_letter_holding`, `mark_dead_letter_permanently_failed`, `schedule_next_dead_letter_attempt`.

use super::{column, database, dead_letter};
use crate::harness::id;

#[test]
fn a_row_is_scheduled_from_every_status_but_recovered() {
    let database = database();
    database.run(&dead_letter(1, "", ""));
    database.run(&dead_letter(2, ", recovery_status", ", 2"));
    database.run(&dead_letter(3, ", recovery_status", ", 4"));
    database.run(&dead_letter(4, ", recovery_status, recovered_at", ", 3, now()"));

    for n in 1..=4 {
        database.run(&format!("select schedule_next_dead_letter_attempt('{}', '2026-03-29T02:30:00+01:00')", id(n)));
    }

    for n in 1..=3 {
        let state = "recovery_status || ' ' || deferral || ' ' || (next_recovery_at = '2026-03-29T01:30:00Z')";
        assert_eq!(column(&database, n, state), "0 operator true");
    }
    assert_eq!(column(&database, 4, "recovery_status || coalesce(next_recovery_at::text, ' none')"), "3 none");
}

#[test]
fn marks_clear_the_next_time_and_leave_recovered_rows_alone() {
    let database = database();
    for verb in ["mark_dead_letter_holding", "mark_dead_letter_permanently_failed"] {
        database.run("delete from wh_dead_letters");
        database.run(&dead_letter(1, ", next_recovery_at", ", now()"));
        database.run(&dead_letter(2, ", recovery_status, recovered_at", ", 3, now()"));

        for n in 1..=3 {
            assert_eq!(database.run(&format!("select {verb}('{}')", id(n))), "", "{verb} returns nothing");
        }

        assert_eq!(column(&database, 1, "next_recovery_at is null and recovery_status in (2, 4)"), "t");
        assert_eq!(column(&database, 2, "recovery_status"), "3");
    }
}
