//! What `recover_dead_letter` leaves behind when it re-emits nothing.

use reprieve::model::{RecoveryStatus, SourceTable};
use serde_json::json;

use crate::harness::rows::{event_row, moving, with};
use crate::harness::{Backend, at, claim, dead_letter, id, outbox_row, perspective_row, source, time_text};

on_both_stores! {
    async fn a_row_that_is_in_its_source_table_already_is_held(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
        assert!(letter.status_note.as_deref().is_some_and(|note| note.contains("wh_outbox")), "{:?}", letter.status_note);
        assert_eq!((letter.recovery_attempts, letter.last_recovery_at), (1, Some(at(60))));
        assert_eq!((letter.recovered_at, letter.next_recovery_at), (None, None));
        assert_eq!(store.source_row("wh_outbox", source(1)).await.unwrap()["attempts"], 4, "the row there is untouched");
    }

    async fn another_row_that_a_unique_index_makes_the_same_counts_too(store: Backend) {
        store.insert("wh_event_store", &event_row(1)).await;
        store.insert("wh_perspective_events", &perspective_row(1)).await;
        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap();
        store.insert("wh_perspective_events", &with(perspective_row(1), json!({"event_work_id": source(77)}))).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(store.rows_in("wh_perspective_events").await, 1);
    }

    async fn a_perspective_row_whose_event_is_gone_is_held(store: Backend) {
        store.insert("wh_perspective_events", &perspective_row(1)).await;
        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap();

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::HoldForReview, 1));
        assert!(letter.status_note.as_deref().is_some_and(|note| note.contains("event")), "{:?}", letter.status_note);
        assert_eq!(store.rows_in("wh_perspective_events").await, 0);
    }

    async fn any_other_error_leaves_it_pending_with_the_error(store: Backend) {
        store.execute("alter table wh_outbox add column region text").await;
        let fence = crate::harness::rows::refuse_destination(&store, "orders");
        store.execute(&fence).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 1));
        assert_eq!((letter.last_recovery_at, letter.recovered_at), (Some(at(60)), None));
        assert!(letter.status_note.as_deref().is_some_and(|note| note.contains("no way")), "{:?}", letter.status_note);
        assert_eq!(store.rows_in("wh_outbox").await, 0);
    }

    async fn rows_that_are_not_pending_are_left_alone(store: Backend) {
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        for (n, changes) in [(1, json!({"recovery_status": 2})), (2, json!({"recovery_status": 4})), (3, recovered)] {
            store.dead(n, changes).await;
            let before = store.raw_letter(id(n)).await;

            assert!(!store.recover_dead_letter(id(n), Some(at(60))).await.unwrap());

            assert_eq!(store.raw_letter(id(n)).await, before);
        }
        assert!(!store.recover_dead_letter(id(99), Some(at(60))).await.unwrap(), "an unknown id");
        assert_eq!(store.rows_in("wh_outbox").await, 0);
    }

    async fn a_row_in_a_live_batch_is_left_to_its_host(store: Backend) {
        // By the database's clock, since the batch must be live whatever time the call stands at.
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let now = jiff::Timestamp::now();
        let claimed = claim(&*store, 10, now).await;
        assert_eq!(claimed.ids(), [id(1)]);

        assert!(!store.recover_dead_letter(id(1), Some(now)).await.unwrap());

        assert_eq!(store.letter(id(1)).await.recovery_attempts, 0);
        assert_eq!(store.rows_in("wh_outbox").await, 0);
    }

    async fn a_pending_row_is_recovered_whatever_an_operator_had_decided_before(store: Backend) {
        for (n, disposition) in [(1, 2), (2, 3)] {
            store.dead(n, json!({"recovery_status": 2, "operator_disposition": disposition})).await;
            store.schedule_next_dead_letter_attempt(id(n), at(50)).await.unwrap();

            assert!(store.recover_dead_letter(id(n), Some(at(60))).await.unwrap());

            assert_eq!(store.letter(id(n)).await.recovery_status, RecoveryStatus::Recovered);
        }
        assert_eq!(store.rows_in("wh_outbox").await, 2);
    }

    async fn an_older_death_of_the_message_is_held_and_names_the_newer(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let newer = json!({"source_id": source(1), "incarnation": 2});
        store.dead(2, newer).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::HoldForReview, 0));
        assert_eq!(letter.status_note, Some(format!("superseded by {}", id(2))));
        assert!(store.recover_dead_letter(id(2), Some(at(60))).await.unwrap());
    }
}
