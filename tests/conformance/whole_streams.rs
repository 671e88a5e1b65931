//! Claims of whole streams.

use reprieve::store::Cursor;
use serde_json::json;

use super::streams::{made_at, waiting_row};
use crate::harness::backend::on_postgres;
use crate::harness::batches::Claimed;
use crate::harness::{Backend, at, claim, claim_streams, id, source, stream, time_text};

/// Rows 1 to 3 are a stream that died backwards, from the second 40 on. Row 4, of no stream, died between.
async fn one_stream_that_died_backwards(store: &Backend) {
    for (n, died) in [(1, 60), (2, 50), (3, 40)] {
        made_at(store, n, i64::try_from(n).unwrap() - 100, json!({ "dead_lettered_at": time_text(at(died)) })).await;
    }
    store.dead(4, json!({ "dead_lettered_at": time_text(at(45)) })).await;
}

/// The numbers of what was claimed, and where the pass goes on.
fn told(claimed: &Claimed) -> (Vec<u64>, Option<Cursor>) {
    let numbers = claimed.ids().into_iter().map(|claimed| (1..100).find(|n| id(*n) == claimed).unwrap()).collect();
    (numbers, claimed.claim.cursor)
}

fn place(died: i64, n: u64) -> Cursor {
    Cursor { due_at: at(died), dead_lettered_at: at(died), dead_letter_id: id(n) }
}

on_both_stores! {
    async fn a_row_brings_the_first_of_its_stream_along_as_far_as_there_is_room(store: Backend) {
        one_stream_that_died_backwards(&store).await;

        let (rows, cursor) = told(&claim_streams(&*store, 2, None, at(100)).await);

        assert_eq!(rows, [2, 1], "the first two of the stream, in the order in which they fell due");
        assert_eq!(cursor, Some(Cursor::FRONT), "the third one fell due first and is met again");
    }

    async fn a_pass_goes_on_behind_what_it_has_taken_of_all_streams(store: Backend) {
        one_stream_that_died_backwards(&store).await;
        made_at(&store, 5, -500, json!({ "stream_id": stream(2), "dead_lettered_at": time_text(at(90)) })).await;
        made_at(&store, 6, -600, json!({ "stream_id": stream(2), "dead_lettered_at": time_text(at(95)) })).await;

        let first = claim_streams(&*store, 4, None, at(100)).await;
        assert_eq!(told(&first).0, [3, 4, 2, 1]);

        let second = claim_streams(&*store, 4, first.claim.cursor, at(100)).await;
        assert_eq!(told(&second), (vec![5, 6], None));
    }

    async fn rows_that_wait_for_one_that_comes_along_come_too(store: Backend) {
        one_stream_that_died_backwards(&store).await;
        waiting_row(&store, 5, -50).await;
        waiting_row(&store, 6, -98).await;

        assert_eq!(told(&claim_streams(&*store, 9, None, at(100)).await).0, [3, 4, 2, 1, 5, 6]);
    }

    async fn behind_a_row_that_has_to_wait_come_those_alone_that_are_due(store: Backend) {
        one_stream_that_died_backwards(&store).await;
        made_at(&store, 5, -98, json!({ "source_id": source(0), "next_recovery_at": time_text(at(101)) })).await;
        waiting_row(&store, 6, -50).await;

        assert_eq!(told(&claim_streams(&*store, 9, None, at(100)).await).0, [3, 4, 2, 1]);
    }

    async fn rows_that_wait_for_a_held_one_do_not_keep_a_claim_from_those_behind_them(store: Backend) {
        made_at(&store, 1, -400, json!({ "recovery_status": 2 })).await;
        for n in 2..=4 {
            waiting_row(&store, n, -300).await;
        }
        made_at(&store, 5, -200, json!({})).await;

        assert_eq!(told(&claim_streams(&*store, 2, None, at(100)).await).0, [5]);
    }

    async fn rows_that_others_may_have_or_nobody_are_not_brought_along(store: Backend) {
        made_at(&store, 1, -400, json!({ "recovery_status": 2 })).await;
        made_at(&store, 2, -300, json!({ "operator_disposition": 3 })).await;
        made_at(&store, 3, -200, json!({ "dead_lettered_at": time_text(at(50)) })).await;
        let reserved = json!({ "replay_credit": "g2", "replay_credit_at": time_text(at(99)) });
        made_at(&store, 4, -100, reserved).await;
        made_at(&store, 5, -50, json!({ "dead_lettered_at": time_text(at(60)) })).await;
        made_at(&store, 6, -10, json!({ "dead_lettered_at": time_text(at(40)) })).await;

        assert_eq!(told(&claim_streams(&*store, 9, None, at(100)).await).0, [6, 3, 5]);
    }

    async fn a_stream_in_a_batch_is_left_to_it(store: Backend) {
        one_stream_that_died_backwards(&store).await;
        let first = claim(&*store, 1, at(100)).await;
        assert_eq!(told(&first), (vec![3], Some(place(40, 3))));

        let second = claim_streams(&*store, 1, first.claim.cursor, at(100)).await;

        assert_eq!(second.ids(), [id(4)]);
        assert!(second.claim.cursor.is_some_and(|cursor| cursor < place(60, 1)), "the stream is met again");
    }

    async fn all_of_a_claim_is_in_its_batch_with_the_stream(store: Backend) {
        one_stream_that_died_backwards(&store).await;

        let claimed = claim_streams(&*store, 9, None, at(100)).await;

        assert_eq!(told(&claimed), (vec![3, 4, 2, 1], None));
        let mut batch = store.query("select * from wh_recovery_batches").await.remove(0);
        let ids = batch["ids"].as_array_mut().unwrap();
        ids.sort_by_key(ToString::to_string);
        assert_eq!(*ids, [1, 2, 3, 4].map(|n| json!(id(n))));
        assert_eq!(batch["streams"], json!([format!("wh_outbox|{}", stream(1))]));
    }
}

#[test]
fn a_full_claim_of_which_a_row_has_changed_meanwhile_is_not_the_end_of_the_pass() {
    on_postgres(async |store| {
        for n in 1..=4 {
            store.dead(n, json!({ "dead_lettered_at": time_text(at(i64::try_from(n).unwrap())) })).await;
        }
        // In the midst of the claim, as another session may.
        store
            .execute(&format!(
                "create or replace function reprieve_is_for(p_credit text, p_credit_at timestamptz, p_generation text,
                     p_now timestamptz) returns boolean language plpgsql as $$
                 begin
                     update wh_dead_letters set operator_notes = 'seen'
                     where dead_letter_id = '{}' and operator_notes is null;
                     return true;
                 end $$",
                id(2)
            ))
            .await;

        let first = claim(&*store, 3, at(100)).await;

        assert_eq!(told(&first), (vec![1, 3], Some(place(3, 3))));
        assert_eq!(claim_streams(&*store, 3, first.claim.cursor, at(100)).await.ids(), [id(4)]);
    });
}
