//! A message that dies, is recovered and dies again.

use reprieve::model::RecoveryStatus;

use super::host::{Told, dies, host, is_back};
use crate::harness::{Backend, at};

const HOUR: i64 = 60 * 60;

on_both_stores! {
    async fn the_deaths_of_one_message_share_its_budget_and_it_ends_held(store: Backend) {
        let host = host(&store).await;
        let first = dies(&store, 1, 0, 99, 0).await;
        assert_eq!(host.scans_at(at(1)).await.recovered, 1);

        let second = dies(&store, 1, 1, 99, 2).await;
        let counts = host.scans_at(at(2 + 2 * HOUR)).await;

        assert_eq!((counts.recovered, counts.held), (0, 1), "its one attempt is spent");
        let letter = store.letter(second).await;
        assert_eq!((letter.incarnation, letter.recovery_attempts), (2, 1));
        assert_eq!(letter.last_recovery_at, Some(at(1)));
        assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(store.letter(first).await.recovery_status, RecoveryStatus::Recovered);
    }

    async fn a_death_on_a_new_generation_starts_with_a_fresh_budget(store: Backend) {
        let mut host = host(&store).await;
        dies(&store, 1, 0, 99, 0).await;
        host.scans_at(at(1)).await;
        host.generation = reprieve::recovery::Generation::fixed(Some("g2".to_owned()));

        store_dies_on(&store, "g2", 2).await;
        let counts = host.scans_at(at(3)).await;

        assert_eq!(counts.recovered, 1, "no cooldown, no spent budget: {counts:?}");
        assert!(is_back(&store, 1).await);
    }

    async fn only_the_newest_death_is_recovered(store: Backend) {
        let host = host(&store).await;
        let first = dies(&store, 1, 0, 8, 0).await;
        // The application sends the message again by itself, and it dies again.
        let second = dies(&store, 1, 1, 8, 5).await;

        let counts = host.scans_at(at(10)).await;

        assert_eq!((counts.recovered, counts.held), (1, 1));
        let older = store.letter(first).await;
        assert_eq!(older.recovery_status, RecoveryStatus::HoldForReview);
        assert!(older.status_note.unwrap().contains(&format!("superseded by {second}")));
        assert_eq!(store.letter(second).await.recovery_status, RecoveryStatus::Recovered);
    }
}

async fn store_dies_on(store: &Backend, generation: &str, seconds: i64) {
    let request = reprieve::store::Move {
        dead_letter_id: crate::harness::id(1001),
        generation: generation.to_owned(),
        failure_reason: reprieve::model::FailureReason(99),
        now: Some(at(seconds)),
        ..crate::harness::rows::moving(reprieve::model::SourceTable::Outbox, 1)
    };
    store.move_to_dead_letters(&request).await.unwrap().expect("the row was there");
}
