//! Hints on the channel `wh_dead_letter_ready`.

use sqlx::postgres::PgListener;

use super::{dead_letter, move_call, outbox_message};
use crate::harness::{Psql, backend, id, migrated_database};

#[test]
fn a_move_tells_those_who_listen_when_it_is_committed() {
    let url = migrated_database();
    backend::run(async {
        let mut listener = PgListener::connect(&url).await.unwrap();
        listener.listen("wh_dead_letter_ready").await.unwrap();
        let application = Psql::new(&url);
        application.run(&outbox_message(1));

        application.run(&move_call(1, "g1"));

        let told = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv()).await;
        assert_eq!(told.expect("told in time").unwrap().channel(), "wh_dead_letter_ready");
    });
}

#[test]
fn an_update_tells_nobody() {
    let url = migrated_database();
    backend::run(async {
        let application = Psql::new(&url);
        application.run(&dead_letter(1, "", ""));
        let mut listener = PgListener::connect(&url).await.unwrap();
        listener.listen("wh_dead_letter_ready").await.unwrap();

        application.run("update wh_dead_letters set status_note = 'x'");
        application.run(&format!("select recover_dead_letter('{}')", id(1)));
        // What was sent before this arrives before it.
        application.run("notify wh_dead_letter_ready, 'last'");

        let told = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv()).await;
        assert_eq!(told.expect("told in time").unwrap().payload(), "last");
    });
}
