//! What keeps rows of a batch back while it is settled, and what that makes due.

use reprieve::model::decision::Standing;
use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::store::{Attempt, Begin, Outcome, Settle, Settled, StreamTerms};
use serde_json::json;

use super::streams::{LENIENT, STRICT, made_at, waiting_row, woken};
use crate::harness::batches::{ended, waiting};
use crate::harness::rows::refuse_destination;
use crate::harness::{Backend, at, attempt, claim, id, stream};

async fn settle_in_order(store: &Backend, streams: StreamTerms, failing: Standing) -> Vec<Settled> {
    let claimed = claim(&**store, 200, at(100)).await;
    let (batch_id, recover) = (claimed.batch_id, claimed.ids());
    store.begin(&Begin { batch_id, recover: &recover, endings: &[], streams, now: Some(at(100)) }).await.unwrap();
    let attempts: Vec<Attempt> = claimed
        .entries()
        .iter()
        .map(|entry| Attempt { in_order: entry.message_type != "Alone", ..attempt(entry, failing) })
        .collect();
    store.settle(&Settle { batch_id, attempts: &attempts, streams, refusal: None, now: Some(at(101)) }).await.unwrap()
}

fn outcomes(settled: &[Settled]) -> Vec<char> {
    let letter = |row: &Settled| match &row.outcome {
        Outcome::Recovered => 'r',
        Outcome::Failed(_) => 'f',
        Outcome::Blocked => 'b',
        Outcome::SourcePresent | Outcome::Gone => 'h',
        Outcome::Superseded => 's',
        Outcome::Unsettled(_) => 'u',
        Outcome::Lost => 'l',
    };
    settled.iter().map(letter).collect()
}

on_both_stores! {
    async fn rows_that_are_made_due_fall_due_in_the_order_of_their_stream_and_not_after_now(store: Backend) {
        for n in 1..=5 {
            waiting_row(&store, n, 100 - i64::try_from(n).unwrap()).await;
        }
        made_at(&store, 9, 0, json!({})).await;

        let settled = settle_in_order(&store, LENIENT, waiting(at(101), 60)).await;

        assert_eq!(outcomes(&settled), ['r']);
        assert_eq!(woken(&store, 1..=5).await, [5, 4, 3, 2, 1]);
        assert_eq!(store.letter(id(1)).await.next_recovery_at, Some(at(101)));
        assert_eq!(claim(&*store, 10, at(101)).await.ids(), [5, 4, 3, 2, 1].map(id));
    }

    async fn a_failed_row_keeps_back_those_behind_it_that_are_in_order_and_no_others(store: Backend) {
        store.execute(&refuse_destination(&store, "refused")).await;
        for n in 1..=9 {
            let of = if n == 9 { 2 } else { 1 };
            let kind = if n == 5 { "Alone" } else { "OrderPlaced" };
            let destination = if n == 3 { "refused" } else { "orders" };
            let row = json!({ "stream_id": stream(of), "message_type": kind, "destination": destination });
            made_at(&store, n, i64::try_from(n).unwrap(), row).await;
        }
        waiting_row(&store, 20, 20).await;

        let settled = settle_in_order(&store, LENIENT, waiting(at(101), 60)).await;

        assert_eq!(outcomes(&settled), ['r', 'r', 'f', 'b', 'r', 'b', 'b', 'b', 'r']);
        for n in [4, 6, 7, 8] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 0));
            assert_eq!((letter.deferral, letter.next_recovery_at), (Some(Deferral::Stream), Some(at(161))));
            assert!(letter.status_note.unwrap().starts_with(&format!("waits for {}", id(3))));
            assert_eq!(letter.last_recovery_at, None);
            let decisions = store.show(id(n)).await.unwrap().unwrap().decisions;
            assert!(decisions[0].note.as_ref().unwrap().starts_with("waits for"), "{decisions:?}");
        }
        assert_eq!(woken(&store, [20]).await, [] as [u64; 0], "it stands behind the failed one");
    }

    async fn what_a_failed_row_ends_as_says_whether_it_is_in_the_way(store: Backend) {
        store.execute(&refuse_destination(&store, "refused")).await;
        let cases = [
            (RecoveryStatus::PermanentlyFailed, STRICT, 'r'),
            (RecoveryStatus::HoldForReview, LENIENT, 'r'),
            (RecoveryStatus::HoldForReview, STRICT, 'b'),
        ];
        for (end, terms, next) in cases {
            store.execute("delete from wh_dead_letters").await;
            store.execute("delete from wh_outbox").await;
            made_at(&store, 1, 1, json!({ "destination": "refused" })).await;
            made_at(&store, 2, 2, json!({})).await;

            let settled = settle_in_order(&store, terms, ended(end)).await;

            assert_eq!(outcomes(&settled), ['f', next], "{end:?} {terms:?}");
        }
    }

    async fn a_row_that_is_there_already_is_in_the_way_where_held_rows_are(store: Backend) {
        for (terms, expected) in [(LENIENT, ['r', 'h', 'r', 'r']), (STRICT, ['r', 'h', 'b', 'b'])] {
            for table in ["wh_dead_letters", "wh_outbox"] {
                store.execute(&format!("delete from {table}")).await;
            }
            for n in 1..=4 {
                made_at(&store, n, i64::try_from(n).unwrap(), json!({})).await;
            }
            store.insert("wh_outbox", &crate::harness::outbox_row(2)).await;

            let settled = settle_in_order(&store, terms, waiting(at(101), 60)).await;

            assert_eq!(outcomes(&settled), expected, "{terms:?}");
            assert_eq!(store.rows_in("wh_outbox").await, if terms.held_blocks { 2 } else { 4 });
        }
    }

    async fn a_row_behind_a_failed_one_that_somebody_settled_since_the_claim_is_left_as_it_is(store: Backend) {
        store.execute(&refuse_destination(&store, "refused")).await;
        made_at(&store, 1, 1, json!({ "destination": "refused" })).await;
        for n in [2, 3] {
            made_at(&store, n, i64::try_from(n).unwrap(), json!({})).await;
        }
        let claimed = claim(&*store, 10, at(100)).await;
        let (batch_id, recover) = (claimed.batch_id, claimed.ids());
        let begin = Begin { batch_id, recover: &recover, endings: &[], streams: LENIENT, now: Some(at(100)) };
        store.begin(&begin).await.unwrap();
        let after_the_lease = Some(at(100_000));
        assert!(store.recover_dead_letter(id(2), after_the_lease).await.unwrap());
        store.mark_dead_letter_holding(id(3)).await.unwrap();
        let (recovered, held) = (store.letter(id(2)).await, store.letter(id(3)).await);
        let going = |entry| Attempt { in_order: true, ..attempt(entry, waiting(at(100_000), 60)) };
        let attempts: Vec<Attempt> = claimed.entries().iter().map(going).collect();

        let settle = Settle { batch_id, attempts: &attempts, streams: LENIENT, refusal: None, now: after_the_lease };
        let settled = store.settle(&settle).await.unwrap();

        assert_eq!(outcomes(&settled), ['f', 'l', 'l']);
        assert_eq!((store.letter(id(2)).await, store.letter(id(3)).await), (recovered, held));
    }

    async fn a_row_that_somebody_held_since_the_claim_is_in_the_way_where_held_rows_are(store: Backend) {
        for (terms, expected) in [(LENIENT, ['l', 'r']), (STRICT, ['l', 'b'])] {
            store.execute("delete from wh_dead_letters").await;
            made_at(&store, 1, 1, json!({})).await;
            made_at(&store, 2, 2, json!({})).await;
            let claimed = claim(&*store, 10, at(100)).await;
            let (batch_id, recover) = (claimed.batch_id, claimed.ids());
            let begin = Begin { batch_id, recover: &recover, endings: &[], streams: terms, now: Some(at(100)) };
            store.begin(&begin).await.unwrap();
            store.mark_dead_letter_holding(id(1)).await.unwrap();
            let going = |entry| Attempt { in_order: true, ..attempt(entry, waiting(at(101), 60)) };
            let attempts: Vec<Attempt> = claimed.entries().iter().map(going).collect();

            let settle = Settle { batch_id, attempts: &attempts, streams: terms, refusal: None, now: Some(at(101)) };
            let settled = store.settle(&settle).await.unwrap();

            assert_eq!(outcomes(&settled), expected, "{terms:?}");
        }
    }
}
