//! Claiming what is due.

use serde_json::json;
use uuid::Uuid;

use crate::harness::{Backend, at, claim, claim_after, id, instance, source, stream, time_text};

on_both_stores! {
    async fn rows_come_in_the_order_in_which_they_fall_due(store: Backend) {
        store.dead(1, json!({"dead_lettered_at": time_text(at(50))})).await;
        store.dead(2, json!({"dead_lettered_at": time_text(at(40))})).await;
        store.dead(3, json!({"dead_lettered_at": time_text(at(1)), "next_recovery_at": time_text(at(45))})).await;
        store.dead(4, json!({"dead_lettered_at": time_text(at(3)), "next_recovery_at": time_text(at(50))})).await;
        store.dead(6, json!({"dead_lettered_at": time_text(at(40))})).await;

        let claimed = claim(&*store, 10, at(100)).await;

        assert_eq!(claimed.ids(), [id(2), id(6), id(3), id(4), id(1)]);
        assert_eq!(claimed.claim.now, at(100));
        assert!(claimed.claim.unreadable.is_empty());
    }

    async fn only_rows_that_are_due_are_claimed(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(100))})).await;
        store.dead(2, json!({"next_recovery_at": time_text(at(101))})).await;
        store.dead(3, json!({"recovery_status": 2})).await;
        store.dead(4, json!({"recovery_status": 4})).await;
        store.dead(5, json!({"recovery_status": 3, "recovered_at": time_text(at(5))})).await;
        store.dead(6, json!({"operator_disposition": 2})).await;
        store.dead(7, json!({"operator_disposition": 3})).await;

        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(1)]);
    }

    async fn a_claim_is_one_batch_row_and_touches_no_dead_letter(store: Backend) {
        store.dead(1, json!({"stream_id": stream(1)})).await;
        store.dead(2, json!({})).await;
        let before = store.query("select * from wh_dead_letters order by dead_letter_id").await;

        let claimed = claim(&*store, 10, at(100)).await;

        assert_eq!(store.query("select * from wh_dead_letters order by dead_letter_id").await, before);
        let mut batches = store.query("select * from wh_recovery_batches").await;
        assert_eq!(batches.len(), 1);
        batches[0]["ids"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
        assert_eq!(batches[0]["batch_id"], json!(claimed.batch_id));
        assert_eq!(batches[0]["owner"], json!(instance(1)));
        assert_eq!((&batches[0]["generation"], &batches[0]["phase"]), (&json!("g1"), &json!("deciding")));
        assert_eq!(batches[0]["ids"], json!([id(1), id(2)]));
        assert_eq!(batches[0]["expires_at"], json!(time_text(at(160))));
    }

    async fn nothing_due_makes_no_batch(store: Backend) {
        store.dead(1, json!({"next_recovery_at": time_text(at(500))})).await;

        let claimed = claim(&*store, 10, at(100)).await;

        assert!(claimed.claim.rows.is_empty());
        assert_eq!(claimed.claim.cursor, None);
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn a_pass_goes_on_after_its_cursor_and_ends(store: Backend) {
        for n in 1..=5 {
            store.dead(n, json!({"dead_lettered_at": time_text(at(7))})).await;
        }
        let first = claim_after(&*store, "g1", 2, None, at(100)).await;
        assert_eq!(first.ids(), [id(1), id(2)]);
        store.release(first.batch_id).await.unwrap();
        let cursor = first.claim.cursor.expect("there is more");
        assert_eq!((cursor.due_at, cursor.dead_lettered_at, cursor.dead_letter_id), (at(7), at(7), id(2)));

        let second = claim_after(&*store, "g1", 2, Some(cursor), at(100)).await;
        assert_eq!(second.ids(), [id(3), id(4)]);
        let third = claim_after(&*store, "g1", 2, second.claim.cursor, at(100)).await;
        assert_eq!(third.ids(), [id(5)]);
        assert_eq!(third.claim.cursor, None, "the pass has reached the end");
        let new_pass = claim_after(&*store, "g1", 2, None, at(100)).await;
        assert_eq!(new_pass.ids(), [id(1), id(2)], "it starts at the front");
    }

    async fn a_claimed_row_is_not_claimed_again(store: Backend) {
        for n in 1..=4 {
            store.dead(n, json!({})).await;
        }

        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(1), id(2)]);
        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(3), id(4)]);
        assert!(claim(&*store, 10, at(100)).await.ids().is_empty());
    }

    async fn a_stream_is_claimed_as_a_whole(store: Backend) {
        for (n, of) in [(1, 1), (2, 2), (3, 1), (4, 2), (5, 3)] {
            store.dead(n, json!({"stream_id": stream(of)})).await;
        }

        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(1), id(2)]);
        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(5)], "3 and 4 are of streams that a host is at");
    }

    async fn rows_of_one_stream_may_share_a_batch(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({"stream_id": stream(1)})).await;
        }

        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(1), id(2), id(3)]);
    }

    async fn no_stream_and_the_zero_stream_exclude_nothing(store: Backend) {
        store.dead(1, json!({})).await;
        store.dead(2, json!({})).await;
        store.dead(3, json!({"stream_id": Uuid::nil()})).await;
        store.dead(4, json!({"stream_id": Uuid::nil()})).await;

        assert_eq!(claim(&*store, 1, at(100)).await.ids(), [id(1)]);
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(2), id(3)]);
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(4)]);
    }

    async fn a_stream_is_one_of_its_table_and_of_its_perspective(store: Backend) {
        let perspective = |name: &str| json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event", "destination": null,
            "perspective_name": name, "stream_id": stream(1),
            "envelope": {"event_id": source(1), "perspective_name": name},
        });
        store.dead(1, json!({"stream_id": stream(1)})).await;
        store.dead(2, json!({"stream_id": stream(1), "source_table": "wh_inbox"})).await;
        store.dead(3, perspective("a")).await;
        store.dead(4, perspective("b")).await;
        store.dead(5, perspective("a")).await;

        assert_eq!(claim(&*store, 1, at(100)).await.ids(), [id(1)]);
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(2), id(3)]);
        assert_eq!(claim(&*store, 2, at(100)).await.ids(), [id(4)]);
    }

    async fn an_older_death_learns_of_the_newer(store: Backend) {
        store.dead(1, json!({})).await;
        store.dead(2, json!({"source_id": source(1), "incarnation": 2})).await;
        store.dead(3, json!({"source_id": source(1), "incarnation": 3, "recovery_status": 2})).await;
        store.dead(4, json!({"source_id": source(1), "source_table": "wh_inbox", "incarnation": 9})).await;

        let claimed = claim(&*store, 10, at(100)).await;

        let superseded: Vec<_> =
            claimed.claim.rows.iter().map(|row| (row.entry.dead_letter_id, row.siblings.superseded_by)).collect();
        assert_eq!(superseded, [(id(1), Some(id(3))), (id(2), Some(id(3))), (id(4), None)]);
    }

    async fn two_hosts_that_claim_at_once_never_share_a_row_or_a_stream(store: Backend) {
        for n in 1..=40 {
            store.dead(n, json!({"stream_id": stream(n % 10)})).await;
        }
        let other = store.another().await;

        let (one, two) = tokio::join!(claim(&*store, 15, at(100)), claim(&*other, 15, at(100)));

        let streams = |claimed: &crate::harness::batches::Claimed| -> std::collections::BTreeSet<_> {
            claimed.entries().iter().filter_map(reprieve::model::DeadLetter::stream).collect()
        };
        assert!(streams(&one).is_disjoint(&streams(&two)));
        assert_eq!(one.ids().len().max(two.ids().len()), 15, "the first claims all it asked for");
    }

    async fn a_row_without_a_due_time_is_due_at_once_even_if_it_died_in_the_future(store: Backend) {
        store.dead(1, json!({"dead_lettered_at": time_text(at(700))})).await;
        store.dead(2, json!({"dead_lettered_at": time_text(at(600))})).await;
        store.dead(3, json!({"dead_lettered_at": time_text(at(500)), "next_recovery_at": time_text(at(900))})).await;
        store.dead(4, json!({"dead_lettered_at": time_text(at(50))})).await;
        store.dead(5, json!({"dead_lettered_at": time_text(at(600)), "recovery_status": 2})).await;
        store.dead(6, json!({"dead_lettered_at": time_text(at(100))})).await;

        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(4), id(6), id(2), id(1)]);
    }

    async fn a_pass_goes_on_among_rows_that_died_in_the_future(store: Backend) {
        for n in 1..=5 {
            store.dead(n, json!({"dead_lettered_at": time_text(at(if n < 3 { 50 } else { 600 }))})).await;
        }
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let claimed = claim_after(&*store, "g1", 2, after, at(100)).await;
            seen.push(claimed.ids());
            store.release(claimed.batch_id).await.unwrap();
            after = claimed.claim.cursor;
            if after.is_none() {
                break;
            }
        }

        assert_eq!(seen, [vec![id(1), id(2)], vec![id(3), id(4)], vec![id(5)]]);
    }

    async fn an_import_at_an_earlier_time_is_due_at_that_time(store: Backend) {
        let rows = [crate::harness::import_line(200)];
        store.import(&reprieve::store::Import { rows: &rows, now: Some(at(100)) }).await.unwrap();

        assert!(store.due("g1", Some(at(100))).await.unwrap().due_now);
        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(200)]);
    }
}
