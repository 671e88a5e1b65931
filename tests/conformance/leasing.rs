//! How long a batch lasts.

use std::time::Duration;

use uuid::Uuid;

use crate::harness::{Backend, at, begin, claim, dead_letter, id};

const MINUTE: Duration = Duration::from_secs(60);

on_both_stores! {
    async fn a_renewed_batch_lasts_from_then_on(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;

        assert!(store.renew(claimed.batch_id, MINUTE, Some(at(150))).await.unwrap());

        assert_eq!(store.rescue(5, Some(at(209))).await.unwrap().batches, 0);
        assert!(claim(&*store, 10, at(209)).await.ids().is_empty());
        assert_eq!(store.rescue(5, Some(at(211))).await.unwrap().batches, 1);
        assert!(!store.renew(claimed.batch_id, MINUTE, Some(at(212))).await.unwrap());
    }

    async fn a_batch_that_was_never_made_cannot_be_renewed(store: Backend) {
        assert!(!store.renew(Uuid::now_v7(), MINUTE, Some(at(100))).await.unwrap());
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn a_released_batch_leaves_its_rows_as_they_were(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let before = store.raw_letter(id(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;

        store.release(claimed.batch_id).await.unwrap();

        assert_eq!(store.raw_letter(id(1)).await, before);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(1)]);
    }

    async fn a_batch_that_was_begun_is_released_uncounted(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let before = store.raw_letter(id(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;

        store.release(claimed.batch_id).await.unwrap();

        assert_eq!(store.raw_letter(id(1)).await, before);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
        assert_eq!(store.rescue(5, Some(at(200))).await.unwrap().attempts, 0);
    }

    async fn releasing_a_batch_that_is_gone_is_no_error(store: Backend) {
        store.release(Uuid::now_v7()).await.unwrap();
    }
}
