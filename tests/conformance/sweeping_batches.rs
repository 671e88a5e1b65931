//! A sweep while a host works on a row.

use std::time::Duration;

use reprieve::model::RecoveryStatus;
use reprieve::store::{Begun, Outcome, Sweep};

use crate::harness::batches::ended;
use crate::harness::{Backend, at, attempt, begin, claim, dead_letter, ending, id, settle};

const G2: Sweep<'static> = Sweep { generation: "g2", stagger: Duration::ZERO, now: None };

on_both_stores! {
    async fn a_row_in_a_live_batch_gets_its_credit_and_the_batch_goes_on(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;

        assert_eq!(store.sweep(&Sweep { now: Some(at(101)), ..G2 }).await.unwrap(), 1);

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.replay_credit.as_deref(), letter.retried_on_generations), (Some("g2"), vec!["g2".to_owned()]));
        let attempts = [attempt(&claimed.entries()[0], ended(RecoveryStatus::HoldForReview))];
        let settled = settle(&*store, claimed.batch_id, &attempts, at(102)).await;
        assert_eq!(settled[0].outcome, Outcome::Recovered);
        assert_eq!(store.rows_in("wh_outbox").await, 1);
    }

    async fn a_failed_attempt_keeps_a_credit_that_was_granted_meanwhile(store: Backend) {
        store.execute(&crate::harness::rows::refuse_destination(&store, "orders")).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
        store.sweep(&Sweep { now: Some(at(101)), ..G2 }).await.unwrap();

        let attempts = [attempt(&claimed.entries()[0], ended(RecoveryStatus::HoldForReview))];
        let settled = settle(&*store, claimed.batch_id, &attempts, at(102)).await;

        assert!(matches!(settled[0].outcome, Outcome::Failed(_)), "{settled:?}");
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.replay_credit.as_deref()), (RecoveryStatus::Pending, Some("g2")));
        assert!(letter.next_recovery_at.is_none_or(|at_| at_ <= at(102)), "due now: {:?}", letter.next_recovery_at);
        assert_eq!(letter.recovery_attempts, 1, "the attempt was made before the credit came");
    }

    async fn an_ending_decided_before_the_credit_came_is_not_carried_out(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        store.sweep(&Sweep { now: Some(at(101)), ..G2 }).await.unwrap();

        let endings = [ending(&claimed.entries()[0], ended(RecoveryStatus::PermanentlyFailed), None)];
        let begun = begin(&*store, claimed.batch_id, &[], &endings, at(102)).await;

        assert_eq!(begun, Begun::Done { ended: vec![] });
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.replay_credit.as_deref()), (RecoveryStatus::Pending, Some("g2")));
    }
}
