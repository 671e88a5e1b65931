//! Free attempts: by a new generation, by an operator.

use reprieve::model::RecoveryStatus;
use reprieve::store::{OperatorChange, OperatorVerb, Target};
use serde_json::json;
use uuid::Uuid;

use super::host::{Told, dies, host, is_back};
use crate::harness::rows::{refuse_destination, with};
use crate::harness::{Backend, at, dead_letter, id};

const VALIDATION: i32 = 4;
const HOUR: i64 = 60 * 60;

async fn operator(store: &Backend, verb: OperatorVerb, letter: Uuid, seconds: i64) {
    let target = Target::Ids(vec![letter]);
    let change = OperatorChange { verb, target, actor: "ada", note: Some("fixed by hand"), now: Some(at(seconds)) };
    let outcomes = store.change(&change).await.unwrap();
    assert_eq!(outcomes[0].result, Ok(()));
}

on_both_stores! {
    async fn a_held_row_gets_one_attempt_on_a_new_generation_and_its_budget_is_left_alone(store: Backend) {
        let mut host = host(&store).await;
        let letter = dies(&store, 1, 0, VALIDATION, 0).await;
        assert_eq!(host.scans_at(at(1)).await.held, 1);

        assert_eq!(host.deploys("g2", at(10)).await, 1);
        assert_eq!(host.scans_at(at(10)).await.recovered, 1);

        assert!(is_back(&store, 1).await);
        let letter = store.letter(letter).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Recovered, 0));
        assert_eq!(letter.replay_credit, None);
        assert_eq!(host.deploys("g2", at(20)).await, 0, "each row once per generation");
    }

    async fn a_restart_on_the_generation_it_died_on_recovers_nothing_that_is_held(store: Backend) {
        let mut host = host(&store).await;
        let letter = dies(&store, 1, 0, VALIDATION, 0).await;
        host.scans_at(at(1)).await;

        assert_eq!(host.deploys("g1", at(10)).await, 1, "it is counted");
        assert_eq!(host.scans_at(at(10)).await.scanned, 0);

        let letter = store.letter(letter).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(letter.retried_on_generations, ["g1"]);
        assert_eq!(letter.replay_credit, None);
    }

    async fn a_free_attempt_that_fails_puts_the_row_back_where_its_budget_puts_it(store: Backend) {
        store.execute(&refuse_destination(&store, "nowhere")).await;
        let nowhere = json!({ "destination": "nowhere", "failure_reason": VALIDATION });
        store.insert("wh_dead_letters", &with(dead_letter(1), nowhere)).await;
        let mut host = host(&store).await;
        host.scans_at(at(10)).await;
        host.deploys("g2", at(20)).await;

        let counts = host.scans_at(at(20)).await;

        assert_eq!(counts.failed, 1);
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::HoldForReview, 0));
        assert_eq!(letter.replay_credit, None, "it was spent");
    }

    async fn a_credit_skips_the_cooldown(store: Backend) {
        let host = host(&store).await;
        dies(&store, 1, 0, 8, 0).await;
        host.scans_at(at(1)).await;
        let second = dies(&store, 1, 1, 8, 2).await;
        assert_eq!(host.scans_at(at(3)).await.deferred, 1);

        operator(&store, OperatorVerb::Retry, second, 4).await;

        assert_eq!(host.scans_at(at(4)).await.recovered, 1);
        assert_eq!(store.letter(second).await.recovery_attempts, 1, "the attempt was free");
    }

    async fn an_operators_retry_brings_back_even_what_was_given_up(store: Backend) {
        let host = host(&store).await;
        let letter = dies(&store, 1, 0, VALIDATION, 0).await;
        operator(&store, OperatorVerb::GiveUp, letter, 1).await;
        assert_eq!(store.letter(letter).await.recovery_status, RecoveryStatus::PermanentlyFailed);

        operator(&store, OperatorVerb::Retry, letter, 2).await;

        assert_eq!(host.scans_at(at(2)).await.recovered, 1);
        assert!(is_back(&store, 1).await);
    }

    async fn no_sweep_reaches_what_is_given_up_or_held_for_good(store: Backend) {
        let mut host = host(&store).await;
        for (n, verb) in [(1, OperatorVerb::GiveUp), (2, OperatorVerb::HoldIndefinitely), (3, OperatorVerb::Hold)] {
            let letter = dies(&store, n, 0, VALIDATION, 0).await;
            operator(&store, verb, letter, 1).await;
        }

        assert_eq!(host.deploys("g2", at(10)).await, 1);

        assert_eq!(host.scans_at(at(10)).await.recovered, 1);
        assert!(is_back(&store, 3).await);
    }

    async fn an_old_host_neither_spends_nor_ends_what_a_new_generation_was_promised(store: Backend) {
        let old = host(&store).await;
        let mut new = host(&store).await;
        dies(&store, 1, 0, VALIDATION, 0).await;
        old.scans_at(at(1)).await;

        assert_eq!(new.deploys("g2", at(10)).await, 1);

        assert_eq!(old.scans_at(at(10 + HOUR - 1)).await.scanned, 0);
        assert_eq!(new.scans_at(at(10 + HOUR - 1)).await.recovered, 1);
    }

    async fn a_retry_that_an_application_wrote_by_sql_is_taken_once(store: Backend) {
        let host = host(&store).await;
        let letter = dies(&store, 1, 0, VALIDATION, 0).await;
        host.scans_at(at(1)).await;
        store.execute("update wh_dead_letters set operator_disposition = 1").await;

        assert_eq!(host.scans_at(at(2)).await.recovered, 1);

        let letter = store.letter(letter).await;
        assert_eq!(letter.operator_disposition.number(), 0);
    }
}
