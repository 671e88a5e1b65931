//! Settling beside an application that is at the same message, on PostgreSQL, where both can be under way at once.

use reprieve::model::RecoveryStatus;
use reprieve::store::{Outcome, Settle};
use serde_json::json;

use crate::harness::batches::waiting;
use crate::harness::{Backend, at, attempt, backend, begin, claim, id, outbox_row, source};

/// Lets the message of dead letter 1 die again in a transaction that is committed once `re_emitting` waits for it.
async fn beside_a_second_death<T>(store: &Backend, re_emitting: impl Future<Output = T>) -> T {
    let moves =
        format!("select move_to_dead_letters('{}', 'wh_outbox', '{}', 8, 'late', null, 'g1')", id(2), source(1));
    let application = store.transaction(&moves).await;
    let committing = async {
        store.until_one_waits().await;
        application.commit().await.unwrap();
    };
    tokio::join!(re_emitting, committing).0
}

async fn assert_only_the_newer_death_is_open(store: &Backend) {
    assert_eq!(store.rows_in("wh_outbox").await, 0);
    let older = store.letter(id(1)).await;
    assert_eq!(older.recovery_status, RecoveryStatus::HoldForReview);
    assert_eq!(older.status_note, Some(format!("superseded by {}", id(2))));
    assert_eq!(store.letter(id(2)).await.recovery_status, RecoveryStatus::Pending);
}

#[test]
fn a_death_that_is_committed_while_its_message_is_settled_supersedes_the_older_one() {
    backend::on_postgres(async |store| {
        store.dead(1, json!({})).await;
        store.insert("wh_outbox", &outbox_row(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
        let attempts = [attempt(&claimed.entries()[0], waiting(at(100), 60))];
        let settle = Settle {
            batch_id: claimed.batch_id,
            attempts: &attempts,
            streams: reprieve::store::StreamTerms::default(),
            refusal: None,
            now: Some(at(101)),
        };

        let settled = beside_a_second_death(&store, store.settle(&settle)).await.unwrap();

        assert_eq!(settled[0].outcome, Outcome::Superseded);
        assert_only_the_newer_death_is_open(&store).await;
    });
}

#[test]
fn a_death_that_is_committed_while_its_message_is_recovered_by_the_verb_supersedes_the_older_one() {
    backend::on_postgres(async |store| {
        store.dead(1, json!({})).await;
        store.insert("wh_outbox", &outbox_row(1)).await;

        let recovered = beside_a_second_death(&store, store.recover_dead_letter(id(1), Some(at(101)))).await.unwrap();

        assert!(!recovered);
        assert_only_the_newer_death_is_open(&store).await;
    });
}
