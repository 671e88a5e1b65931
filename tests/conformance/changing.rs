//! The operator's verbs.

use reprieve::model::{Disposition, RecoveryStatus};
use reprieve::store::{ChangeOutcome, Filter, OperatorChange, OperatorVerb, Target};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Backend, at, claim, dead_letter, id, time_text};

async fn change(store: &Backend, verb: OperatorVerb, target: Target) -> Vec<ChangeOutcome> {
    let request = OperatorChange { verb, target, actor: "kim", note: Some("seen to"), now: Some(at(100)) };
    store.change(&request).await.unwrap()
}

fn ids(numbers: &[u64]) -> Target {
    Target::Ids(numbers.iter().map(|n| id(*n)).collect())
}

fn changed(outcomes: &[ChangeOutcome]) -> Vec<Uuid> {
    outcomes.iter().filter(|outcome| outcome.result.is_ok()).map(|outcome| outcome.dead_letter_id).collect()
}

/// One row of every status that an operator can change: pending, held, held for ever, given up.
async fn one_of_each(store: &Backend) {
    let far = time_text(at(9999));
    let pending = json!({"next_recovery_at": far, "deferral": "cooldown"});
    store.dead(1, pending).await;
    store.dead(2, json!({"recovery_status": 2, "status_note": "spent"})).await;
    let for_ever = json!({"recovery_status": 2, "operator_disposition": 2});
    store.dead(3, for_ever).await;
    let given_up = json!({"recovery_status": 4, "operator_disposition": 3});
    store.dead(4, given_up).await;
}

on_both_stores! {
    async fn a_retry_makes_any_row_due_with_a_free_attempt(store: Backend) {
        one_of_each(&store).await;

        let outcomes = change(&store, OperatorVerb::Retry, ids(&[1, 2, 3, 4])).await;

        assert_eq!(changed(&outcomes), [id(1), id(2), id(3), id(4)]);
        for n in 1..=4 {
            let letter = store.letter(id(n)).await;
            assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
            assert_eq!(letter.operator_disposition, Disposition::None);
            assert_eq!((letter.replay_credit.as_deref(), letter.replay_credit_at), (Some("*"), Some(at(100))));
        }
        assert_eq!(claim(&*store, 10, at(100)).await.ids().len(), 4);
    }

    async fn a_hold_ends_with_the_next_generation_or_never(store: Backend) {
        one_of_each(&store).await;
        store.insert("wh_dead_letters", &dead_letter(5)).await;

        assert_eq!(changed(&change(&store, OperatorVerb::Hold, ids(&[1, 3])).await).len(), 2);
        assert_eq!(changed(&change(&store, OperatorVerb::HoldIndefinitely, ids(&[5])).await).len(), 1);

        for n in [1, 3] {
            let letter = store.letter(id(n)).await;
            assert_eq!(letter.recovery_status, RecoveryStatus::HoldForReview);
            assert_eq!((letter.operator_disposition, letter.next_recovery_at), (Disposition::None, None));
        }
        let for_ever = store.letter(id(5)).await;
        assert_eq!(for_ever.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(for_ever.operator_disposition, Disposition::HoldIndefinitely);
        store.reset_dead_letters_for_generation("g2").await.unwrap();
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::Pending);
        assert_eq!(store.letter(id(5)).await.recovery_status, RecoveryStatus::HoldForReview);
    }

    async fn a_row_given_up_comes_back_only_by_a_retry(store: Backend) {
        one_of_each(&store).await;

        assert_eq!(changed(&change(&store, OperatorVerb::GiveUp, ids(&[1, 2])).await).len(), 2);

        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::PermanentlyFailed);
        assert_eq!((letter.operator_disposition, letter.next_recovery_at), (Disposition::MarkPermanentlyFailed, None));
        store.reset_dead_letters_for_generation("g2").await.unwrap();
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::PermanentlyFailed);
        change(&store, OperatorVerb::Retry, ids(&[1])).await;
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::Pending);
    }

    async fn what_did_not_change_is_told_with_the_reason(store: Backend) {
        use reprieve::store::operator::Unchanged;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(3, recovered).await;
        claim(&*store, 1, at(90)).await;
        let before = [store.raw_letter(id(1)).await, store.raw_letter(id(3)).await];

        let outcomes = change(&store, OperatorVerb::GiveUp, ids(&[1, 2, 3, 4])).await;

        let results: Vec<_> = outcomes.iter().map(|outcome| (outcome.dead_letter_id, outcome.result)).collect();
        assert_eq!(results, [
            (id(1), Err(Unchanged::BeingRecovered)),
            (id(2), Ok(())),
            (id(3), Err(Unchanged::AlreadyRecovered)),
            (id(4), Err(Unchanged::UnknownId)),
        ]);
        assert_eq!([store.raw_letter(id(1)).await, store.raw_letter(id(3)).await], before);
    }

    async fn who_and_why_are_kept_and_recorded(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        change(&store, OperatorVerb::Hold, ids(&[1])).await;

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.operator_actor.as_deref(), letter.operator_notes.as_deref()), (Some("kim"), Some("seen to")));
        let decisions = store.show(id(1)).await.unwrap().unwrap().decisions;
        assert_eq!(decisions.len(), 1);
        assert_eq!((decisions[0].decision.as_str(), decisions[0].decided_at), ("hold", at(100)));
        assert_eq!(decisions[0].note.as_deref(), Some("seen to"));
        assert!(decisions[0].rule.as_deref().is_some_and(|rule| rule.contains("kim")));
        let quiet = OperatorChange {
            verb: OperatorVerb::Retry, target: ids(&[1]), actor: "lou", note: None, now: Some(at(101)),
        };
        store.change(&quiet).await.unwrap();
        assert_eq!(store.letter(id(1)).await.operator_actor.as_deref(), Some("lou"));
        assert_eq!(store.show(id(1)).await.unwrap().unwrap().decisions.len(), 2);
    }

    async fn a_filter_changes_what_it_matches(store: Backend) {
        for n in 1..=300 {
            let kind = if n % 3 == 0 { "InvoiceDue" } else { "OrderPlaced" };
            store.dead(n, json!({"message_type": kind})).await;
        }
        let filter = Filter { message_type: Some("Invoice*".to_owned()), ..Filter::default() };

        let outcomes = change(&store, OperatorVerb::GiveUp, Target::Filter(filter)).await;

        assert_eq!(changed(&outcomes), (1..=100).map(|n| id(n * 3)).collect::<Vec<_>>());
        assert_eq!(store.value("select count(*) as n from wh_dead_letters where recovery_status = 4").await, 100);
    }

    async fn an_empty_filter_is_refused(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let request = OperatorChange {
            verb: OperatorVerb::GiveUp, target: Target::Filter(Filter::default()), actor: "kim", note: None, now: None,
        };

        assert!(store.change(&request).await.is_err());

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::Pending);
    }
}
