//! Holding, giving up and scheduling a row.

use reprieve::model::{Deferral, RecoveryStatus};
use serde_json::json;

use crate::harness::{Backend, at, id, time_text};

async fn with_next_time(store: &Backend) {
    store.dead(1, json!({"next_recovery_at": time_text(at(60)), "deferral": "failure", "status_note": "old"})).await;
}

on_both_stores! {
    async fn a_held_row_waits_for_nothing(store: Backend) {
        with_next_time(&store).await;

        store.mark_dead_letter_holding(id(1)).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.next_recovery_at), (RecoveryStatus::HoldForReview, None));
        assert_eq!((letter.deferral, letter.status_note), (None, None), "what the host said of it holds no longer");
        assert!(store.fetch_dead_letters_due(Some(at(1000)), 10).await.unwrap().is_empty());
    }

    async fn a_row_given_up_waits_for_nothing(store: Backend) {
        with_next_time(&store).await;

        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.next_recovery_at), (RecoveryStatus::PermanentlyFailed, None));
        assert!(store.fetch_dead_letters_due(Some(at(1000)), 10).await.unwrap().is_empty());
    }

    async fn a_row_is_scheduled_from_any_status_but_recovered(store: Backend) {
        for (n, status) in [(1, 0), (2, 2), (3, 4)] {
            store.dead(n, json!({"recovery_status": status, "status_note": "old"})).await;
            store.schedule_next_dead_letter_attempt(id(n), at(500)).await.unwrap();

            let letter = store.letter(id(n)).await;
            assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
            assert_eq!(letter.next_recovery_at, Some(at(500)));
            assert_eq!((letter.deferral, letter.status_note), (Some(Deferral::Operator), None));
        }
        assert!(store.fetch_dead_letters_due(Some(at(499)), 10).await.unwrap().is_empty());
        assert_eq!(store.fetch_dead_letters_due(Some(at(500)), 10).await.unwrap().len(), 3);
    }

    async fn a_recovered_row_is_left_alone(store: Backend) {
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(1, recovered).await;
        let before = store.raw_letter(id(1)).await;

        store.mark_dead_letter_holding(id(1)).await.unwrap();
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();
        store.schedule_next_dead_letter_attempt(id(1), at(500)).await.unwrap();

        assert_eq!(store.raw_letter(id(1)).await, before);
    }

    async fn marking_an_unknown_row_is_no_error(store: Backend) {
        store.mark_dead_letter_holding(id(1)).await.unwrap();
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();
        store.schedule_next_dead_letter_attempt(id(1), at(500)).await.unwrap();

        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    }
}
