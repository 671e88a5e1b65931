//! Sweeps, deferrals and retries by SQL.

use std::time::Duration;

use super::{at, dead, migrated};
use crate::model::{Disposition, RecoveryStatus};
use crate::store::{RecoveryStore, Sweep, Verbs};

#[tokio::test]
async fn a_sweep_reaches_each_open_or_held_row_once() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..7).map(dead).collect();
    letters[1].recovery_status = Some(RecoveryStatus::HoldForReview);
    letters[2].recovery_status = Some(RecoveryStatus::PermanentlyFailed);
    letters[3].recovery_status = Some(RecoveryStatus::Recovered);
    letters[4].operator_disposition = Some(Disposition::HoldIndefinitely);
    letters[5].generation = "shop-2.0".to_owned();
    letters[5].recovery_status = Some(RecoveryStatus::HoldForReview);
    letters[6].retried_on_generations = Some(vec!["shop-2.0".to_owned()]);
    file.import(&letters).await;
    let sweep = Sweep { generation: "shop-2.0", stagger: Duration::from_secs(30), now: Some(at(100)) };
    assert_eq!(file.store.sweep(&sweep).await.unwrap(), 3);
    assert_eq!(file.store.sweep(&sweep).await.unwrap(), 0);
    assert_eq!(file.store.reset_dead_letters_for_generation("shop-2.0").await.unwrap(), 0);
    let entry = |index: usize| file.entry(letters[index].dead_letter_id);
    let (open, held, own) = (entry(0).await, entry(1).await, entry(5).await);
    assert_eq!((open.recovery_status, open.next_recovery_at), (RecoveryStatus::Pending, Some(at(100))));
    assert_eq!((held.recovery_status, held.next_recovery_at), (RecoveryStatus::Pending, Some(at(110))));
    assert_eq!((held.replay_credit.as_deref(), held.replay_credit_at), (Some("shop-2.0"), Some(at(100))));
    assert_eq!(held.retried_on_generations, ["shop-2.0"]);
    assert_eq!((own.recovery_status, own.replay_credit), (RecoveryStatus::HoldForReview, None));
    assert_eq!(own.retried_on_generations, ["shop-2.0"]);
    assert_eq!(entry(4).await.retried_on_generations, Vec::<String>::new());
}

#[tokio::test]
async fn a_sweep_of_many_rows_reaches_all_of_them_and_spreads_them_oldest_first() {
    let file = migrated().await;
    let letters: Vec<_> = (0..2500).map(dead).collect();
    file.import(&letters).await;
    let sweep = Sweep { generation: "shop-2.0", stagger: Duration::from_secs(2500), now: Some(at(5000)) };
    assert_eq!(file.store.sweep(&sweep).await.unwrap(), 2500);
    for index in [0, 999, 1000, 2499] {
        let entry = file.entry(letters[index].dead_letter_id).await;
        assert_eq!(entry.next_recovery_at, Some(at(5000 + i64::try_from(index).unwrap())));
    }
}

#[tokio::test]
async fn a_row_in_a_live_batch_gets_the_credit_and_stays_where_it_is() {
    let file = migrated().await;
    let letters = [dead(0)];
    file.import(&letters).await;
    file.claim(9, at(10)).await;
    let sweep = Sweep { generation: "shop-2.0", stagger: Duration::ZERO, now: Some(at(20)) };
    assert_eq!(file.store.sweep(&sweep).await.unwrap(), 1);
    let entry = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((entry.replay_credit.as_deref(), entry.next_recovery_at), (Some("shop-2.0"), None));
}

#[tokio::test]
async fn a_retry_that_an_application_asks_for_by_sql_is_taken_once() {
    let file = migrated().await;
    let mut letters: Vec<_> = (0..2).map(dead).collect();
    letters[0].recovery_status = Some(RecoveryStatus::PermanentlyFailed);
    letters[1].recovery_status = Some(RecoveryStatus::Recovered);
    file.import(&letters).await;
    assert!(!file.store.due("g", Some(at(10))).await.unwrap().due_now);
    file.sql("update wh_dead_letters set operator_disposition = 1").await;
    assert!(file.store.due("g", Some(at(10))).await.unwrap().due_now);
    assert_eq!(file.store.take_operator_retries(Some(at(10))).await.unwrap(), 1);
    assert_eq!(file.store.take_operator_retries(Some(at(10))).await.unwrap(), 0);
    let entry = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((entry.recovery_status, entry.next_recovery_at), (RecoveryStatus::Pending, Some(at(10))));
    assert_eq!((entry.replay_credit.as_deref(), entry.operator_disposition), (Some("*"), Disposition::None));
}
