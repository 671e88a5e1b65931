//! Functions that take a row out of the way of those behind it in its stream.

use sqlx::postgres::PgListener;

use super::{column, dead_letter};
use crate::harness::{Psql, backend, id, migrated_database, stream};

/// A dead letter of the first stream; the second and the third wait for the first.
fn three_of_a_stream(database: &Psql) {
    database.run(&dead_letter(1, ", stream_id", &format!(", '{}'", stream(1))));
    for n in [2, 3] {
        let waits = format!(", '{}', 'stream', now() + interval '1 hour'", stream(1));
        database.run(&dead_letter(n, ", stream_id, deferral, next_recovery_at", &waits));
    }
}

#[test]
fn holding_giving_up_and_recovering_make_the_next_rows_due_and_tell_the_hosts() {
    for verb in ["mark_dead_letter_holding", "mark_dead_letter_permanently_failed", "recover_dead_letter"] {
        let url = migrated_database();
        backend::run(async {
            let database = Psql::new(&url);
            three_of_a_stream(&database);
            let mut listener = PgListener::connect(&url).await.unwrap();
            listener.listen("wh_dead_letter_ready").await.unwrap();

            database.run(&format!("select {verb}('{}')", id(1)));
            database.run("notify wh_dead_letter_ready, 'last'");

            let told = tokio::time::timeout(std::time::Duration::from_secs(10), listener.recv()).await;
            assert_eq!(told.expect("told in time").unwrap().payload(), "", "{verb}");
            for n in [2, 3] {
                assert_eq!(column(&database, n, "deferral is null and next_recovery_at <= now()"), "t", "{verb}");
            }
            let order =
                "select dead_letter_id from wh_dead_letters where recovery_status = 0 order by next_recovery_at";
            assert_eq!(database.run(order).lines().collect::<Vec<_>>(), [id(2).to_string(), id(3).to_string()]);
        });
    }
}

#[test]
fn a_rollback_takes_it_back() {
    let database = super::database();
    three_of_a_stream(&database);

    database.run(&format!("begin; select mark_dead_letter_holding('{}'); rollback", id(1)));

    assert_eq!(column(&database, 2, "deferral"), "stream");
}

#[test]
fn a_row_that_somebody_has_locked_is_not_waited_for() {
    let url = migrated_database();
    backend::run(async {
        let database = Psql::new(&url);
        three_of_a_stream(&database);
        let pool = sqlx::PgPool::connect(&url).await.unwrap();
        let mut locking = pool.begin().await.unwrap();
        let lock = "select from wh_dead_letters where dead_letter_id = $1 for update";
        sqlx::query(lock).bind(id(2)).fetch_all(&mut *locking).await.unwrap();

        database.run(&format!("select mark_dead_letter_holding('{}')", id(1)));

        locking.rollback().await.unwrap();
        assert_eq!(column(&database, 2, "deferral"), "stream", "it is left to whoever has it");
        assert_eq!(column(&database, 3, "deferral is null"), "t");
    });
}
