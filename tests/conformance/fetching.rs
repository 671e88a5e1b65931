//! Reading what is due.

use reprieve::store::Row;
use serde_json::json;

use crate::harness::backend::ids_of;
use crate::harness::rows::with;
use crate::harness::{Backend, at, dead_letter, id, time_text};

on_both_stores! {
    async fn the_oldest_death_comes_first_and_ties_go_by_id(store: Backend) {
        for (n, died) in [(5, 30), (4, 10), (3, 20), (2, 20), (1, 20)] {
            let row = with(dead_letter(n), json!({"dead_lettered_at": time_text(at(died))}));
            store.insert("wh_dead_letters", &row).await;
        }

        let due = store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap();

        assert_eq!(ids_of(&due), [id(4), id(1), id(2), id(3), id(5)]);
    }

    async fn the_order_is_that_of_dying_even_when_another_fell_due_first(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(90))})).await;
        store.dead(2, json!({"next_recovery_at": time_text(at(50))})).await;

        let due = store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap();

        assert_eq!(ids_of(&due), [id(1), id(2)]);
    }

    async fn a_row_is_due_from_its_time_on(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(60))})).await;

        assert!(store.fetch_dead_letters_due(Some(at(59)), 10).await.unwrap().is_empty());
        let now = at(60);
        assert_eq!(ids_of(&store.fetch_dead_letters_due(Some(now), 10).await.unwrap()), [id(1)]);
        let moment_before = now - jiff::SignedDuration::from_micros(1);
        assert!(store.fetch_dead_letters_due(Some(moment_before), 10).await.unwrap().is_empty());
    }

    async fn held_failed_and_recovered_rows_are_not_due(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.dead(2, json!({"recovery_status": 2})).await;
        store.dead(3, json!({"recovery_status": 4})).await;
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(4, recovered).await;
        store.dead(5, json!({"operator_disposition": 2})).await;
        store.dead(6, json!({"operator_disposition": 3})).await;
        store.dead(7, json!({"operator_disposition": 1})).await;

        let due = store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap();

        assert_eq!(ids_of(&due), [id(1), id(7)]);
    }

    async fn no_more_rows_come_than_were_asked_for(store: Backend) {
        for n in 1..=5 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }

        assert_eq!(ids_of(&store.fetch_dead_letters_due(Some(at(100)), 2).await.unwrap()), [id(1), id(2)]);
        assert!(store.fetch_dead_letters_due(Some(at(100)), 0).await.unwrap().is_empty());
        assert_eq!(store.fetch_dead_letters_due(Some(at(100)), u32::MAX).await.unwrap().len(), 5);
    }

    async fn fetching_changes_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let before = store.raw_letter(id(1)).await;

        for _ in 0..2 {
            assert_eq!(store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap().len(), 1);
        }

        assert_eq!(store.raw_letter(id(1)).await, before);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn without_a_time_the_databases_clock_counts(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let later = json!({"next_recovery_at": "2999-01-01T00:00:00.000000Z"});
        store.dead(2, later).await;

        assert_eq!(ids_of(&store.fetch_dead_letters_due(None, 10).await.unwrap()), [id(1)]);
    }

    async fn every_column_but_the_body_is_read(store: Backend) {
        let row = with(dead_letter(1), json!({
            "stream_id": crate::harness::stream(1), "error_text": "boom", "dead_lettered_by": crate::harness::instance(3),
            "recovery_attempts": 2, "last_recovery_at": time_text(at(7)), "next_recovery_at": time_text(at(8)),
            "retried_on_generations": ["g0", "a,\"b\" {c}"], "operator_notes": "seen", "operator_actor": "kim",
            "error_fingerprint": "0123456789abcdef", "error_fingerprint_version": 1,
            "source_created_at": time_text(at(-5)), "source_position": 42, "incarnation": 3, "replay_credit": "g0",
            "replay_credit_at": time_text(at(6)), "deferral": "failure", "policy_errors": 2,
            "policy_error_digest": "abc", "status_note": "note",
        }));
        store.insert("wh_dead_letters", &row).await;

        let due = store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap();

        let [Row::Readable(fetched)] = due.as_slice() else { panic!("one row: {due:?}") };
        assert_eq!(*fetched, store.letter(id(1)).await);
        assert_eq!(fetched.retried_on_generations, ["g0", "a,\"b\" {c}"]);
        assert_eq!(fetched.last_recovery_at, Some(at(7)));
        assert_eq!(fetched.next_recovery_at, Some(at(8)));
        assert_eq!(fetched.source_position, Some(42));
        assert_eq!(fetched.replay_credit_at, Some(at(6)));
        assert_eq!(fetched.deferral, Some(reprieve::model::Deferral::Failure));
        assert_eq!((fetched.policy_errors, fetched.policy_error_digest.as_deref()), (2, Some("abc")));
        assert_eq!((fetched.operator_notes.as_deref(), fetched.operator_actor.as_deref()), (Some("seen"), Some("kim")));
        assert_eq!(fetched.error_fingerprint_version, Some(1));
    }

    async fn a_row_without_a_due_time_is_due_even_if_it_died_in_the_future(store: Backend) {
        store.dead(1, json!({"dead_lettered_at": time_text(at(600))})).await;
        store.dead(2, json!({"dead_lettered_at": time_text(at(500)), "next_recovery_at": time_text(at(700))})).await;
        store.dead(3, json!({"dead_lettered_at": time_text(at(300)), "next_recovery_at": time_text(at(60))})).await;

        assert_eq!(ids_of(&store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap()), [id(3), id(1)]);
    }
}
