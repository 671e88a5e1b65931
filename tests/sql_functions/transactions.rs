//! The functions inside an application's own transaction.

use super::{column, database, dead_letter, move_call, outbox_message};
use crate::harness::id;

#[test]
fn a_rollback_takes_a_move_back() {
    let database = database();
    database.run(&outbox_message(1));

    database.run(&format!("begin; {} rollback;", move_call(1, "g1")));

    assert_eq!(database.run("select count(*) from wh_outbox"), "1");
    assert_eq!(database.run("select count(*) from wh_dead_letters"), "0");
}

#[test]
fn a_move_commits_with_the_applications_own_changes() {
    let database = database();
    database.run("create table log (line text)");
    database.run(&outbox_message(1));

    database.run(&format!("begin; insert into log values ('gave up'); {} commit;", move_call(1, "g1")));

    assert_eq!(database.run("select (select count(*) from log) + (select count(*) from wh_dead_letters)"), "2");
}

#[test]
fn a_rollback_takes_a_recovery_and_its_attempt_back() {
    let database = database();
    database.run(&dead_letter(1, "", ""));

    let printed = database.run(&format!("begin; select recover_dead_letter('{}'); rollback;", id(1)));

    assert_eq!(printed, "t");
    assert_eq!(column(&database, 1, "recovery_status || ' ' || recovery_attempts"), "0 0");
    assert_eq!(database.run("select count(*) from wh_outbox"), "0");
}

#[test]
fn a_move_and_a_recovery_may_share_a_transaction() {
    let database = database();
    database.run(&outbox_message(1));

    let recover = format!("select recover_dead_letter('{}');", id(1));
    let printed = database.run(&format!("begin; {} {recover} {recover} commit;", move_call(1, "g1")));

    assert_eq!(printed, format!("{}\nt\nf", id(1)));
    assert_eq!(database.run("select attempts from wh_outbox"), "0");
}

#[test]
fn a_failed_recovery_does_not_break_the_transaction() {
    let database = database();
    database.run("alter table wh_outbox add constraint no_orders check (destination <> 'orders')");
    database.run(&dead_letter(1, "", ""));
    database.run(&dead_letter(2, "", "").replace("'orders'", "'bills'"));

    let printed = database.run(&format!(
        "begin; select recover_dead_letter('{}'); select recover_dead_letter('{}'); commit;",
        id(1),
        id(2)
    ));

    assert_eq!(printed, "f\nt");
    assert_eq!(column(&database, 1, "recovery_attempts"), "1");
}

#[test]
fn the_functions_work_at_every_isolation_level() {
    let database = database();
    for (n, level) in [(1, "repeatable read"), (2, "serializable")] {
        database.run(&outbox_message(n));
        let recover = format!("select recover_dead_letter('{}');", id(n));
        database.run(&format!("begin isolation level {level}; {} {recover} commit;", move_call(n, "g1")));

        assert_eq!(column(&database, n, "recovery_status"), "3", "{level}");
    }
}
