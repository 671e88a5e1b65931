//! What becomes of the batches of hosts that died.

use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::store::Rescued;
use serde_json::json;

use crate::harness::backend::on_sqlite;
use crate::harness::{Backend, at, begin, claim, claim_after, dead_letter, id, source, time_text};

on_both_stores! {
    async fn an_attempt_is_counted_on_each_row_that_was_being_recovered(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({"recovery_attempts": 1})).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &[id(1), id(2)], &[], at(101)).await;

        let rescued = store.rescue(5, Some(at(161))).await.unwrap();

        assert_eq!(rescued, Rescued { batches: 1, attempts: 2, policy_errors: 0, held: vec![] });
        for n in [1, 2] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 2));
            assert!(letter.last_recovery_at.is_some(), "the attempt has a time");
            assert_eq!(letter.recovered_at, None);
        }
        assert_eq!(store.letter(id(3)).await.recovery_attempts, 1);
        assert_eq!(store.rows_in("wh_outbox").await, 0);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
        assert_eq!(store.rescue(5, Some(at(162))).await.unwrap(), Rescued::default());
    }

    async fn a_credit_pays_for_an_attempt_whose_host_died(store: Backend) {
        let credit = json!({"replay_credit": "g1", "replay_credit_at": time_text(at(50)), "recovery_attempts": 3});
        store.dead(1, credit).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;

        assert_eq!(store.rescue(5, Some(at(161))).await.unwrap().attempts, 1);

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.replay_credit, letter.recovery_attempts), (None, 3), "a free attempt is free once");
    }

    async fn a_policy_error_is_counted_where_the_host_died_deciding(store: Backend) {
        store.dead(1, json!({"policy_errors": 1})).await;
        claim(&*store, 10, at(100)).await;

        let rescued = store.rescue(5, Some(at(161))).await.unwrap();

        assert_eq!(rescued, Rescued { batches: 1, attempts: 0, policy_errors: 1, held: vec![] });
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.policy_errors, letter.recovery_attempts), (2, 0));
        assert_eq!(letter.recovery_status, RecoveryStatus::Pending);
        assert_eq!((letter.next_recovery_at, letter.deferral), (Some(at(161 + 120)), Some(Deferral::PolicyError)));
    }

    async fn a_row_that_the_database_does_not_let_change_keeps_no_other_from_being_counted(store: Backend) {
        for n in 1..=5 {
            store.dead(n, json!({})).await;
        }
        store.refuse_changes_of(id(2)).await;
        let untouched = store.raw_letter(id(2)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;
        let rescued = store.rescue(5, Some(at(161))).await.unwrap();
        assert_eq!(rescued, Rescued { batches: 1, attempts: 4, policy_errors: 0, held: vec![] });

        assert_eq!(claim(&*store, 10, at(162)).await.ids().len(), 5);
        let rescued = store.rescue(5, Some(at(223))).await.unwrap();

        assert_eq!(rescued, Rescued { batches: 1, attempts: 0, policy_errors: 4, held: vec![] });
        assert_eq!((store.raw_letter(id(2)).await, store.rows_in("wh_recovery_batches").await), (untouched, 0));
        let counted = "select count(*) as n from wh_dead_letters where recovery_attempts = 1 and policy_errors = 1";
        assert_eq!(store.value(counted).await, json!(4));
    }

    async fn a_row_that_kills_its_host_again_and_again_is_held(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let mut now = 100;
        for death in 1..=3 {
            assert_eq!(claim(&*store, 10, at(now)).await.ids(), [id(1)]);
            now += 61;
            store.rescue(3, Some(at(now))).await.unwrap();
            assert_eq!(store.letter(id(1)).await.policy_errors, death);
            now += 4000;
        }

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.next_recovery_at), (RecoveryStatus::HoldForReview, None));
        assert!(letter.status_note.is_some(), "the note says why");
        assert!(claim(&*store, 10, at(now)).await.ids().is_empty());
    }

    async fn a_live_batch_is_left_alone(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        claim(&*store, 10, at(100)).await;

        assert_eq!(store.rescue(5, Some(at(159))).await.unwrap(), Rescued::default());

        assert_eq!(store.rows_in("wh_recovery_batches").await, 1);
    }

    async fn only_batches_whose_lease_ended_are_dissolved(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        claim(&*store, 1, at(100)).await;
        let later = claim_after(&*store, "g1", 1, None, at(140)).await;
        assert_eq!(later.ids(), [id(2)]);

        assert_eq!(store.rescue(5, Some(at(170))).await.unwrap().batches, 1);

        assert_eq!(store.query("select batch_id from wh_recovery_batches").await[0]["batch_id"], json!(later.batch_id));
    }

    async fn a_row_that_was_settled_meanwhile_counts_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;
        store.mark_dead_letter_permanently_failed(id(1)).await.unwrap();

        store.rescue(5, Some(at(161))).await.unwrap();

        let letter = store.letter(id(1)).await;
        assert_eq!(letter.recovery_status, RecoveryStatus::PermanentlyFailed);
    }

    async fn two_hosts_rescue_a_batch_once(store: Backend) {
        for n in 1..=20 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let claimed = claim(&*store, 20, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;
        let other = store.another().await;

        let (one, two) = tokio::join!(store.rescue(5, Some(at(200))), other.rescue(5, Some(at(200))));

        assert_eq!(one.unwrap().attempts + two.unwrap().attempts, 20);
        let attempts = store.value("select sum(recovery_attempts) as n from wh_dead_letters").await;
        assert_eq!(attempts, 20);
    }
}

#[test]
fn a_trigger_that_rolls_everything_back_has_nobody_counted_twice() {
    on_sqlite(async |store| {
        for n in 1..=5 {
            store.dead(n, json!({})).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(101)).await;
        let trigger = "create trigger refuse before update on wh_dead_letters when new.source_id = '$ID'
                       begin select raise(rollback, 'all of it'); end";
        store.execute(&trigger.replace("$ID", &source(2).to_string())).await;

        assert_eq!(store.rescue(5, Some(at(161))).await.unwrap().attempts, 4);

        assert_eq!(store.rescue(5, Some(at(162))).await.unwrap(), Rescued::default());
        let attempts = "select group_concat(recovery_attempts) as n from wh_dead_letters order by dead_letter_id";
        assert_eq!(store.value(attempts).await, json!("1,0,1,1,1"));
    });
}
