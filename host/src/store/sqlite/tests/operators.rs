//! Operators' verbs.

use uuid::Uuid;

use super::{at, dead, migrated};
use crate::model::{Disposition, RecoveryStatus};
use crate::store::operator::Unchanged;
use crate::store::{Filter, OperatorChange, OperatorStore, OperatorVerb, StoreError, Target};

const fn change(verb: OperatorVerb, target: Target) -> OperatorChange<'static> {
    OperatorChange { verb, target, actor: "ada", note: Some("fixed"), now: None }
}

#[tokio::test]
async fn a_verb_says_of_each_id_what_became_of_it() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..3).map(dead).collect();
    letters[1].recovery_status = Some(RecoveryStatus::Recovered);
    letters[2].recovery_status = Some(RecoveryStatus::PermanentlyFailed);
    file.import(&letters).await;
    file.claim(9, at(10)).await;
    let mut ids: Vec<_> = letters.iter().map(|letter| letter.dead_letter_id).collect();
    ids.push(Uuid::nil());
    let mut request = change(OperatorVerb::Retry, Target::Ids(ids));
    request.now = Some(at(20));
    let outcomes = file.store.change(&request).await.unwrap();
    let results: Vec<_> = outcomes.iter().map(|outcome| outcome.result).collect();
    let wanted = [Err(Unchanged::BeingRecovered), Err(Unchanged::AlreadyRecovered), Ok(()), Err(Unchanged::UnknownId)];
    assert_eq!(results, wanted);
    let entry = file.entry(letters[2].dead_letter_id).await;
    assert_eq!((entry.recovery_status, entry.next_recovery_at), (RecoveryStatus::Pending, Some(at(20))));
    assert_eq!((entry.replay_credit.as_deref(), entry.replay_credit_at), (Some("*"), Some(at(20))));
    assert_eq!((entry.operator_actor.as_deref(), entry.operator_notes.as_deref()), (Some("ada"), Some("fixed")));
    let decisions = file.store.show(entry.dead_letter_id).await.unwrap().unwrap().decisions;
    assert_eq!((decisions.len(), decisions[0].decision.as_str()), (1, "retry"));
    assert_eq!(
        (decisions[0].rule.as_deref(), decisions[0].note.as_deref()),
        (Some(r#"{"actor":"ada"}"#), Some("fixed"))
    );
}

#[tokio::test]
async fn a_filter_changes_what_it_matches_and_an_empty_one_is_refused() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..3).map(dead).collect();
    letters[2].message_type = "Other".to_owned();
    file.import(&letters).await;
    let filter = Filter { message_type: Some("Order*".to_owned()), ..Filter::default() };
    for (verb, status, disposition) in [
        (OperatorVerb::Hold, RecoveryStatus::HoldForReview, Disposition::None),
        (OperatorVerb::HoldIndefinitely, RecoveryStatus::HoldForReview, Disposition::HoldIndefinitely),
        (OperatorVerb::GiveUp, RecoveryStatus::PermanentlyFailed, Disposition::MarkPermanentlyFailed),
        (OperatorVerb::Retry, RecoveryStatus::Pending, Disposition::None),
    ] {
        let outcomes = file.store.change(&change(verb, Target::Filter(filter.clone()))).await.unwrap();
        assert_eq!(outcomes.len(), 2);
        let entry = file.entry(letters[0].dead_letter_id).await;
        assert_eq!((entry.recovery_status, entry.operator_disposition), (status, disposition));
    }
    assert_eq!(file.entry(letters[2].dead_letter_id).await.operator_actor, None);
    let refused = file.store.change(&change(OperatorVerb::GiveUp, Target::Filter(Filter::default()))).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
    assert_eq!(file.store.count(&Filter::default()).await.unwrap(), 3);
}
