//! The sweep for a new generation.

use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::RecoveryStatus;
use reprieve::store::{Import, NewDeadLetter, Sweep};
use serde_json::json;

use crate::harness::rows::import_line;
use crate::harness::{Backend, at, id, time_text};

async fn sweep(store: &Backend, generation: &str, now: Timestamp) -> u64 {
    store.sweep(&Sweep { generation, stagger: Duration::ZERO, now: Some(now) }).await.unwrap()
}

on_both_stores! {
    async fn open_and_held_rows_get_one_free_attempt(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(9999)), "deferral": "cooldown"})).await;
        store.dead(2, json!({"recovery_status": 2, "recovery_attempts": 3})).await;

        assert_eq!(sweep(&store, "g2", at(100)).await, 2);

        for n in [1, 2] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.next_recovery_at), (RecoveryStatus::Pending, Some(at(100))));
            assert_eq!(letter.retried_on_generations, ["g2"]);
            assert_eq!((letter.replay_credit.as_deref(), letter.replay_credit_at), (Some("g2"), Some(at(100))));
        }
        assert_eq!(store.letter(id(2)).await.recovery_attempts, 3, "a sweep spends nothing and gives nothing back");
        assert_eq!(store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap().len(), 2);
    }

    async fn a_second_sweep_for_the_same_generation_reaches_nothing(store: Backend) {
        store.dead(1, json!({})).await;
        store.dead(2, json!({"retried_on_generations": ["g2"], "recovery_status": 2})).await;

        assert_eq!(sweep(&store, "g2", at(100)).await, 1);
        assert_eq!(sweep(&store, "g2", at(200)).await, 0);

        assert_eq!(store.letter(id(1)).await.next_recovery_at, Some(at(100)));
        assert_eq!(store.letter(id(2)).await.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(sweep(&store, "g3", at(300)).await, 2);
        assert_eq!(store.letter(id(1)).await.retried_on_generations, ["g2", "g3"]);
        assert_eq!(store.letter(id(1)).await.replay_credit.as_deref(), Some("g3"), "never more than one credit");
    }

    async fn recovered_and_given_up_rows_and_indefinite_holds_stay(store: Backend) {
        store.dead(1, json!({"recovery_status": 3, "recovered_at": time_text(at(5))})).await;
        store.dead(2, json!({"recovery_status": 4})).await;
        store.dead(3, json!({"recovery_status": 2, "operator_disposition": 2})).await;
        store.dead(4, json!({"recovery_status": 4, "operator_disposition": 3})).await;
        let mut before = Vec::new();
        for n in 1..=4 {
            before.push(store.raw_letter(id(n)).await);
        }

        assert_eq!(sweep(&store, "g2", at(100)).await, 0);

        for n in 1..=4_u64 {
            assert_eq!(store.raw_letter(id(n)).await, before[usize::try_from(n - 1).unwrap()]);
        }
    }

    async fn a_row_that_died_on_the_generation_is_counted_without_credit(store: Backend) {
        store.dead(1, json!({"generation": "g2", "recovery_status": 2, "recovery_attempts": 1})).await;
        store.dead(2, json!({"generation": "g2", "next_recovery_at": time_text(at(9999)), "recovery_attempts": 1})).await;

        assert_eq!(sweep(&store, "g2", at(100)).await, 2);

        let held = store.letter(id(1)).await;
        assert_eq!((held.recovery_status, held.replay_credit), (RecoveryStatus::HoldForReview, None));
        assert_eq!(held.retried_on_generations, ["g2"]);
        let pending = store.letter(id(2)).await;
        assert_eq!((pending.recovery_status, pending.replay_credit), (RecoveryStatus::Pending, None));
        assert_eq!((pending.next_recovery_at, pending.recovery_attempts), (Some(at(100)), 1));
        assert_eq!(pending.retried_on_generations, ["g2"]);
        assert_eq!(sweep(&store, "g2", at(200)).await, 0);
    }

    async fn an_operators_credit_gives_way_to_the_generations(store: Backend) {
        store.dead(1, json!({"replay_credit": "*", "replay_credit_at": time_text(at(1))})).await;

        assert_eq!(sweep(&store, "g2", at(100)).await, 1);

        assert!(store.letter(id(1)).await.replay_credit.is_some());
    }

    async fn the_verb_does_all_of_it_in_one_call(store: Backend) {
        for n in 1..=30 {
            store.dead(n, json!({"recovery_status": if n % 2 == 0 { 0 } else { 2 }})).await;
        }

        assert_eq!(store.reset_dead_letters_for_generation("g2").await.unwrap(), 30);
        assert_eq!(store.reset_dead_letters_for_generation("g2").await.unwrap(), 0);

        let pending = "select count(*) as n from wh_dead_letters where recovery_status = 0 and replay_credit = 'g2'";
        let pending = store.value(pending).await;
        assert_eq!(pending, 30);
    }

    async fn a_stagger_spreads_the_rows_oldest_first_over_its_window(store: Backend) {
        for n in 1..=10 {
            store.dead(n, json!({"recovery_status": 2})).await;
        }

        let request = Sweep { generation: "g2", stagger: Duration::from_secs(1000), now: Some(at(100)) };
        assert_eq!(store.sweep(&request).await.unwrap(), 10);

        let mut times = Vec::new();
        for n in 1..=10 {
            times.push(store.letter(id(n)).await.next_recovery_at.expect("a time"));
        }
        assert!(times.is_sorted(), "the oldest comes first: {times:?}");
        assert!(times[0] >= at(100) && times[9] <= at(1100), "within the window: {times:?}");
        assert!(times[9] >= at(900) && times[0] <= at(300), "over all of the window: {times:?}");
        let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1].as_second() - pair[0].as_second()).collect();
        assert!(gaps.iter().all(|gap| (50..=250).contains(gap)), "evenly: {gaps:?}");
    }

    async fn two_hosts_sweep_each_row_once(store: Backend) {
        for n in 1..=200 {
            store.dead(n, json!({"recovery_status": 2})).await;
        }
        let other = store.another().await;
        let request = Sweep { generation: "g2", stagger: Duration::ZERO, now: Some(at(500)) };

        let (one, two) = tokio::join!(store.sweep(&request), other.sweep(&request));

        assert_eq!(one.unwrap() + two.unwrap(), 200);
    }

    async fn a_sweep_ends_whatever_stands_where_a_chunk_ends(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({"recovery_status": 2})).await;
        }
        if !store.is_postgres() {
            store.execute("update wh_dead_letters set dead_letter_id = x'00ff', dead_lettered_at = x'ff'
                           where dead_letter_id like '%3'").await;
        }
        let reached = sweep(&store, "g2", at(100)).await;
        assert_eq!(store.rows_in("wh_dead_letters where replay_credit = 'g2'").await, i64::try_from(reached).unwrap());
    }

    async fn a_row_that_may_not_change_is_left_and_the_others_are_swept_in_their_places(store: Backend) {
        for n in 1..=10 {
            store.dead(n, json!({"recovery_status": 2})).await;
        }
        store.refuse_changes_of(id(4)).await;

        let request = Sweep { generation: "g2", stagger: Duration::from_secs(1000), now: Some(at(100)) };
        assert_eq!(store.sweep(&request).await.unwrap(), 9);

        assert_eq!(store.letter(id(4)).await.replay_credit, None);
        for (n, due) in [(1, 100), (3, 300), (5, 500), (10, 1000)] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.replay_credit.as_deref(), letter.next_recovery_at), (Some("g2"), Some(at(due))), "{n}");
        }
        assert_eq!(store.sweep(&request).await.unwrap(), 0);
    }

    async fn many_rows_are_swept_in_chunks_whatever_was_swept_before(store: Backend) {
        // More than two chunks; every third row, and all of the first chunk, have had this generation.
        let had = |n: u64| n <= 1000 || n.is_multiple_of(3);
        let rows: Vec<_> = (1..=2_100)
            .map(|n| {
                let retried = if had(n) { vec!["g2".to_owned()] } else { Vec::new() };
                NewDeadLetter { retried_on_generations: Some(retried), ..import_line(n) }
            })
            .collect();
        store.import(&Import { rows: &rows, now: Some(at(5000)) }).await.unwrap();
        let left = (1..=2_100).filter(|n| !had(*n)).count() as u64;

        let request = Sweep { generation: "g2", stagger: Duration::from_secs(1000), now: Some(at(5000)) };
        assert_eq!(store.sweep(&request).await.unwrap(), left);

        assert_eq!(sweep(&store, "g2", at(5001)).await, 0);
        let (first, last) = (store.letter(id(1001)).await, store.letter(id(2_099)).await);
        assert_eq!(first.next_recovery_at, Some(at(5000)));
        assert!(last.next_recovery_at > Some(at(5990)) && last.next_recovery_at < Some(at(6000)), "{last:?}");
        assert_eq!(store.rows_in("wh_dead_letters where replay_credit = 'g2'").await, i64::try_from(left).unwrap());
    }
}
