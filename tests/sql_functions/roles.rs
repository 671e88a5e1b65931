//! The functions run with the rights of whoever calls them.

use super::{dead_letter, get_stream_events, move_call, outbox_message, perspective_events};
use crate::harness::server::Server;
use crate::harness::{Psql, id, instance, migrated_database, source};

/// A database and a role of its own that may do this much in it.
fn with_role(rights: &str) -> (Psql, Psql) {
    let url = migrated_database();
    let name = url.rsplit('/').next().unwrap();
    let role = format!("app_{name}");
    let owner = Psql::new(&url);
    owner.run(&format!("create role {role} login password 'secret'; {}", rights.replace("$role", &role)));
    (owner, Psql::new(&Server::shared().url_as(&role, "secret", name)))
}

#[test]
fn plain_rights_on_the_tables_are_enough() {
    let (owner, application) = with_role(
        "grant select, insert, update, delete on wh_outbox, wh_inbox, wh_perspective_events, wh_event_store,
           wh_dead_letters to $role;
         grant select on wh_recovery_batches to $role;",
    );
    owner.run(&outbox_message(1));
    owner.run(&outbox_message(2));

    assert_eq!(application.run(&move_call(1, "g1")), id(1).to_string());
    application.run(&move_call(2, "g1"));
    assert_eq!(application.run("select count(*) from fetch_dead_letters_due(now(), 10)"), "2");
    assert_eq!(application.run(&format!("select recover_dead_letter('{}')", id(1))), "t");
    application.run(&format!("select mark_dead_letter_holding('{}')", id(2)));
    application.run(&format!("select schedule_next_dead_letter_attempt('{}', now())", id(2)));
    application.run(&format!("select mark_dead_letter_permanently_failed('{}')", id(2)));
    assert_eq!(application.run("select reset_dead_letters_for_generation('g2')"), "0");
}

#[test]
fn a_drainer_needs_plain_rights_on_what_it_reads_and_writes() {
    let (owner, application) = with_role(
        "grant select, update on wh_perspective_events to $role; grant select on wh_event_store to $role;
         grant select, insert, update, delete on wh_service_instances to $role;",
    );
    owner.run(&perspective_events(&[1, 2]));

    assert_eq!(application.run(&get_stream_events(1, "now()")).lines().count(), 2);
    let (instance, work) = (instance(1), source(1));
    let complete = format!("select complete_perspective_events('{instance}', array['{work}'::uuid])");
    assert_eq!(application.run(&complete), work.to_string());
    let work = source(2);
    let fail = format!("select fail_perspective_events('{instance}', array['{work}'::uuid], array['late'], array[8])");
    assert_eq!(application.run(&fail), work.to_string());
    application.run(&format!("select heartbeat_service_instance('{instance}', 'shop', 'h1', 7)"));
    assert_eq!(application.run(&format!("select * from claim_orphaned_perspective_events('{instance}', 10)")), "");
    assert_eq!(application.run("select * from remove_stale_service_instances()"), "");
}

#[test]
fn without_rights_on_the_tables_nothing_is_moved() {
    let (owner, application) = with_role("");
    owner.run(&outbox_message(1));
    owner.run(&dead_letter(2, "", ""));

    assert!(application.refuses(&move_call(1, "g1")).contains("42501"), "permission is denied");
    assert!(application.refuses(&format!("select recover_dead_letter('{}')", id(2))).contains("42501"));

    assert_eq!(owner.run("select count(*) from wh_outbox"), "1");
}
