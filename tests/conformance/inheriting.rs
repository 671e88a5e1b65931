//! A message that dies again goes on where its last death stood.

use reprieve::model::{Disposition, SourceTable};
use serde_json::json;

use crate::harness::rows::{import_line, moving, with};
use crate::harness::{Backend, at, dead_letter, id, outbox_row, recover_all, source, time_text};

/// The message of row 1 dies for the `n`-th time, under a generation.
async fn die(store: &Backend, n: u64, generation: &str) {
    if store.source_row("wh_outbox", source(1)).await.is_none() {
        store.insert("wh_outbox", &outbox_row(1)).await;
    }
    let mut request = moving(SourceTable::Outbox, n);
    (request.source_id, request.generation) = (source(1), generation.to_owned());
    request.now = Some(at(100 * i64::try_from(n).unwrap()));
    store.move_to_dead_letters(&request).await.unwrap().expect("the row was there");
}

on_both_stores! {
    async fn a_message_that_dies_again_spends_the_same_budget(store: Backend) {
        die(&store, 1, "g1").await;
        recover_all(&*store, at(150)).await;
        die(&store, 2, "g1").await;

        let again = store.letter(id(2)).await;
        assert_eq!(again.incarnation, 2);
        assert_eq!(again.recovery_attempts, 1);
        assert_eq!(again.last_recovery_at, Some(at(150)));
        assert_eq!(again.retried_on_generations, ["g1"]);
        assert_eq!((again.next_recovery_at, again.recovered_at), (None, None));

        recover_all(&*store, at(250)).await;
        die(&store, 3, "g1").await;

        let third = store.letter(id(3)).await;
        assert_eq!((third.incarnation, third.recovery_attempts), (3, 2));
        assert_eq!(third.last_recovery_at, Some(at(250)));
    }

    async fn the_first_death_on_a_new_generation_starts_afresh(store: Backend) {
        die(&store, 1, "g1").await;
        recover_all(&*store, at(150)).await;
        die(&store, 2, "g2").await;

        let again = store.letter(id(2)).await;
        assert_eq!((again.incarnation, again.recovery_attempts, again.last_recovery_at), (2, 0, None));
        assert_eq!(again.retried_on_generations, ["g1"]);
    }

    async fn the_most_attempts_and_the_newest_time_of_the_generation_count(store: Backend) {
        let row = |n: u64, attempts: u64, last: i64, generation: &str, retried: &[&str]| {
            with(dead_letter(n), json!({
                "source_id": source(1), "incarnation": n, "generation": generation, "recovery_attempts": attempts,
                "last_recovery_at": time_text(at(last)), "recovery_status": 3, "recovered_at": time_text(at(last)),
                "retried_on_generations": retried,
            }))
        };
        store.insert("wh_dead_letters", &row(1, 5, 10, "g1", &["a"])).await;
        store.insert("wh_dead_letters", &row(2, 2, 30, "g1", &["b", "a"])).await;
        store.insert("wh_dead_letters", &row(3, 9, 50, "g2", &["c"])).await;

        die(&store, 4, "g1").await;

        let again = store.letter(id(4)).await;
        assert_eq!((again.incarnation, again.recovery_attempts, again.last_recovery_at), (4, 5, Some(at(30))));
        let mut retried = again.retried_on_generations;
        retried.sort();
        assert_eq!(retried, ["a", "b", "c"]);
    }

    async fn a_credit_and_an_operators_word_are_not_inherited(store: Backend) {
        die(&store, 1, "g1").await;
        store.execute(&format!(
            "update wh_dead_letters set replay_credit = '*', replay_credit_at = '{}', operator_disposition = 2,
             policy_errors = 3, status_note = 'x', recovery_status = 2",
            time_text(at(1))
        )).await;
        die(&store, 2, "g1").await;

        let again = store.letter(id(2)).await;
        assert_eq!((again.replay_credit, again.replay_credit_at), (None, None));
        assert_eq!(again.operator_disposition, Disposition::None);
        assert_eq!((again.policy_errors, again.status_note), (0, None));
    }

    async fn the_same_id_in_another_table_is_another_message(store: Backend) {
        die(&store, 1, "g1").await;
        recover_all(&*store, at(150)).await;
        store.insert("wh_inbox", &crate::harness::inbox_row(1)).await;
        let mut request = moving(SourceTable::Inbox, 2);
        request.source_id = source(1);
        store.move_to_dead_letters(&request).await.unwrap();

        let other = store.letter(id(2)).await;
        assert_eq!((other.incarnation, other.recovery_attempts), (1, 0));
        assert!(other.retried_on_generations.is_empty());
    }

    async fn an_import_inherits_only_what_it_does_not_say(store: Backend) {
        die(&store, 1, "g1").await;
        recover_all(&*store, at(150)).await;
        let mut says_nothing = import_line(2);
        says_nothing.source_id = source(1);
        let mut says_all = import_line(3);
        says_all.source_id = source(1);
        (says_all.incarnation, says_all.recovery_attempts) = (Some(7), Some(0));
        says_all.retried_on_generations = Some(vec![]);

        let rows = [says_nothing, says_all];
        store.import(&reprieve::store::Import { rows: &rows, now: Some(at(300)) }).await.unwrap();

        let inherited = store.letter(id(2)).await;
        assert_eq!((inherited.incarnation, inherited.recovery_attempts), (2, 1));
        assert_eq!(inherited.last_recovery_at, Some(at(150)));
        assert_eq!(inherited.retried_on_generations, ["g1"]);
        let told = store.letter(id(3)).await;
        assert_eq!((told.incarnation, told.recovery_attempts), (7, 0));
        assert!(told.retried_on_generations.is_empty());
    }
}
