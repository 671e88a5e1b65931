//! Decisions of a batch that different policies, or one with different answers, were asked about.

use std::sync::Arc;

use reprieve::model::RecoveryStatus;
use reprieve::store::{Attempt, Ending, Ruling};

use crate::harness::batches::{ended, waiting};
use crate::harness::{Backend, at, attempt, begin, claim, dead_letter, ending, id, outbox_row, settle};

fn ruling(name: &str) -> Arc<Ruling> {
    let rule = format!(r#"{{"name":"{name}"}}"#);
    Arc::new(Ruling { policy_name: name.to_owned(), policy_digest: name.repeat(3), rule })
}

/// Two that follow one another and share a ruling, one of another, and one that is equal to the first.
fn rulings() -> [Arc<Ruling>; 4] {
    let first = ruling("a");
    [Arc::clone(&first), first, ruling("b"), ruling("a")]
}

/// The decisions about a row: each with the policy's name and digest, and the rule.
async fn decided(store: &Backend, n: u64) -> Vec<(String, String, String, String)> {
    let decisions = store.show(id(n)).await.unwrap().unwrap().decisions;
    let spaceless = |text: Option<String>| text.unwrap().replace(' ', "");
    decisions
        .into_iter()
        .map(|d| (d.decision, d.policy_name.unwrap(), d.policy_digest.unwrap(), spaceless(d.rule)))
        .collect()
}

fn expected(decision: &str, name: &str) -> Vec<(String, String, String, String)> {
    vec![(decision.to_owned(), name.to_owned(), name.repeat(3), format!(r#"{{"name":"{name}"}}"#))]
}

/// Makes an attempt on each of four rows, and looks at what was recorded of them.
async fn attempts_are_recorded(store: &Backend) {
    for n in 1..=4 {
        store.insert("wh_dead_letters", &dead_letter(n)).await;
    }
    let claimed = claim(&**store, 10, at(100)).await;
    begin(&**store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
    let attempts: Vec<Attempt> = claimed
        .entries()
        .iter()
        .zip(rulings())
        .map(|(entry, ruling)| {
            let mut attempt = attempt(entry, waiting(at(100), 60));
            attempt.record.ruling = ruling;
            attempt
        })
        .collect();
    settle(&**store, claimed.batch_id, &attempts, at(100)).await;
    for (n, name) in (1..).zip(["a", "a", "b", "a"]) {
        assert_eq!(decided(store, n).await, expected("recover", name), "{n}");
    }
}

on_both_stores! {
    async fn each_attempt_of_a_batch_is_recorded_with_what_was_said_of_its_row(store: Backend) {
        attempts_are_recorded(&store).await;
    }

    async fn each_attempt_is_recorded_so_when_one_of_them_is_made_in_vain(store: Backend) {
        store.insert("wh_outbox", &outbox_row(2)).await;
        attempts_are_recorded(&store).await;
    }

    async fn each_ending_of_a_batch_is_recorded_with_what_was_said_of_its_row(store: Backend) {
        for n in 1..=5 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        let mut endings: Vec<Ending> = claimed
            .entries()
            .iter()
            .map(|entry| ending(entry, ended(RecoveryStatus::HoldForReview), None))
            .collect();
        // The second one is not recorded, and stands among the others all the same.
        endings[1].record = None;
        for (ending, ruling) in endings.iter_mut().filter(|ending| ending.record.is_some()).zip(rulings()) {
            ending.record.as_mut().unwrap().ruling = ruling;
        }

        begin(&*store, claimed.batch_id, &[], &endings, at(100)).await;

        for (n, name) in [(1, "a"), (3, "a"), (4, "b"), (5, "a")] {
            assert_eq!(decided(&store, n).await, expected("hold", name), "{n}");
        }
        assert!(decided(&store, 2).await.is_empty());
    }
}
