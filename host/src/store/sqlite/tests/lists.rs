//! Imports, listings and numbers.

use uuid::Uuid;

use super::{at, dead, json, migrated};
use crate::model::{FailureReason, RecoveryStatus, SourceTable};
use crate::store::{Filter, Import, OperatorStore, Page, Row, StoreError, Verbs};

fn id(row: &Row) -> Uuid {
    match row {
        Row::Readable(entry) => entry.dead_letter_id,
        Row::Unreadable { problem, .. } => panic!("{problem}"),
    }
}

#[tokio::test]
async fn a_listing_is_newest_first_and_goes_on_after_a_row() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..6).map(|seconds| dead(seconds / 2)).collect();
    letters[5].recovery_status = Some(RecoveryStatus::HoldForReview);
    letters[4].message_type = "OrderShipped".to_owned();
    letters[3].failure_reason = FailureReason(77);
    letters[3].stream_id = Some(letters[3].source_id);
    file.import(&letters).await;
    let page = |limit, after| Page { limit, after };
    let all = Filter::default();
    let first = file.store.list(&all, &page(4, None)).await.unwrap();
    let second = file.store.list(&all, &page(4, Some(id(&first[3])))).await.unwrap();
    let got: Vec<_> = first.iter().chain(&second).map(id).collect();
    let wanted: Vec<_> = letters.iter().rev().map(|letter| letter.dead_letter_id).collect();
    assert_eq!(got, wanted);
    let unknown = file.store.list(&all, &page(4, Some(Uuid::nil()))).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))));

    let held = Filter { status: Some(RecoveryStatus::HoldForReview), ..Filter::default() };
    assert_eq!(file.store.list(&held, &page(9, None)).await.unwrap().len(), 1);
    let pending = Filter { status: Some(RecoveryStatus::Pending), ..Filter::default() };
    assert_eq!(file.store.list(&pending, &page(2, Some(wanted[2]))).await.unwrap().len(), 2);
    for (glob, count) in [("Order*", 6), ("OrderP?aced", 5), ("*[!d]", 0), ("Order[!P]*", 1), ("order*", 0)] {
        let filter = Filter { message_type: Some(glob.to_owned()), ..Filter::default() };
        assert_eq!(file.store.count(&filter).await.unwrap(), count, "{glob}");
    }
    let filter = Filter { reason: Some(FailureReason(77)), stream_id: letters[3].stream_id, ..Filter::default() };
    assert_eq!(file.store.count(&filter).await.unwrap(), 1);
    file.claim(2, jiff::Timestamp::now()).await;
    let recovering = Filter { status: Some(RecoveryStatus::Recovering), ..Filter::default() };
    assert_eq!(file.store.count(&recovering).await.unwrap(), 2);

    let stats = file.store.stats(Some(at(100))).await.unwrap();
    assert_eq!(stats.by_status.values().copied().collect::<Vec<_>>(), [3, 2, 1, 0, 0]);
    assert_eq!((stats.by_reason[&FailureReason(77)], stats.by_source_table[&SourceTable::Outbox]), (1, 6));
    assert_eq!((stats.by_fingerprint.len(), stats.by_fingerprint[0].1), (1, 6));
    assert_eq!(stats.oldest_due, Some(at(0)));
}

#[tokio::test]
async fn fetching_gives_the_oldest_due_rows_first() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..5).map(dead).collect();
    letters[0].next_recovery_at = Some(at(50));
    letters[1].recovery_status = Some(RecoveryStatus::HoldForReview);
    letters[2].operator_disposition = Some(crate::model::Disposition::MarkPermanentlyFailed);
    file.import(&letters).await;
    let fetched = |rows: Vec<Row>| rows.iter().map(id).collect::<Vec<_>>();
    let early = fetched(file.store.fetch_dead_letters_due(Some(at(49)), 9).await.unwrap());
    assert_eq!(early, [letters[3].dead_letter_id, letters[4].dead_letter_id]);
    let late = fetched(file.store.fetch_dead_letters_due(Some(at(50)), 2).await.unwrap());
    assert_eq!(late, [letters[0].dead_letter_id, letters[3].dead_letter_id]);
    file.store.schedule_next_dead_letter_attempt(letters[1].dead_letter_id, at(60)).await.unwrap();
    file.store.mark_dead_letter_permanently_failed(letters[3].dead_letter_id).await.unwrap();
    let later = fetched(file.store.fetch_dead_letters_due(Some(at(60)), 9).await.unwrap());
    assert_eq!(later, [letters[0].dead_letter_id, letters[1].dead_letter_id, letters[4].dead_letter_id]);
}

#[tokio::test]
async fn an_import_keeps_what_is_given_and_skips_what_is_there() {
    let file = migrated().await;
    let mut letter = dead(0);
    letter.envelope = json("{ \"event_data\" : 1.0e2 }");
    letter.source_row = Some(json("{\"scope\":  {\"a\":1.10}}"));
    letter.recovery_status = Some(RecoveryStatus::Recovering);
    letter.recovery_attempts = Some(2);
    let again = [letter.clone(), dead(1)];
    file.import(&[letter.clone()]).await;
    let imported = file.store.import(&Import { rows: &again, now: None }).await.unwrap();
    assert_eq!((imported.imported, imported.skipped), (1, vec![letter.dead_letter_id]));
    let shown = file.store.show(letter.dead_letter_id).await.unwrap().unwrap();
    assert_eq!(shown.envelope, "{ \"event_data\" : 1.0e2 }");
    assert_eq!(shown.source_row.as_deref(), Some("{\"scope\":  {\"a\":1.10}}"));
    let entry = file.entry(letter.dead_letter_id).await;
    assert_eq!((entry.recovery_status, entry.recovery_attempts), (RecoveryStatus::Pending, 2));
    assert_eq!((entry.source_created_at, entry.error_fingerprint_version), (Some(at(0)), Some(1)));
    assert!(file.store.show(Uuid::nil()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_large_import_skips_what_is_there_and_links_deaths_of_one_message() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..350).map(dead).collect();
    letters[250].source_id = letters[20].source_id;
    file.import(&[letters[101].clone()]).await;
    let imported = file.store.import(&Import { rows: &letters, now: None }).await.unwrap();
    assert_eq!((imported.imported, imported.skipped), (349, vec![letters[101].dead_letter_id]));
    assert_eq!(file.entry(letters[250].dead_letter_id).await.incarnation, 2);
    assert_eq!(file.store.count(&Filter::default()).await.unwrap(), 350);
}

#[tokio::test]
async fn an_import_with_an_impossible_row_imports_nothing() {
    let file = migrated().await;
    let mut bad = dead(0);
    bad.recovery_attempts = Some(-1);
    let mut rows: Vec<_> = (0..200).map(dead).collect();
    rows[150] = bad.clone();
    let error = file.store.import(&Import { rows: &rows, now: None }).await.unwrap_err();
    assert!(matches!(&error, StoreError::BadRow { dead_letter_id, .. } if *dead_letter_id == bad.dead_letter_id));
    assert_eq!(file.store.count(&Filter::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn another_death_of_a_message_is_shown_with_it() {
    let file = migrated().await;
    let first = dead(0);
    let mut second = dead(1);
    second.source_id = first.source_id;
    file.import(&[first.clone(), second.clone()]).await;
    let shown = file.store.show(second.dead_letter_id).await.unwrap().unwrap();
    assert_eq!(shown.incarnations.len(), 1);
    assert_eq!((shown.incarnations[0].dead_letter_id, shown.incarnations[0].incarnation), (first.dead_letter_id, 1));
    let (_, claim) = file.claim(9, at(10)).await;
    assert_eq!(claim.rows[0].siblings.superseded_by, Some(second.dead_letter_id));
    assert_eq!(claim.rows[1].siblings.superseded_by, None);
}
