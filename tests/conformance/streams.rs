//! Where rows stand in their streams, and what makes those due that wait.

use std::time::Duration;

use reprieve::model::decision::{Predecessor, Standing};
use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::store::{Begin, Begun, Ending, InStream, Seen, StreamOrder, StreamTerms};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::batches::{Claimed, ended};
use crate::harness::{Backend, at, claim, ending, id, source, stream, time_text};

/// Held rows are in the way.
pub const STRICT: StreamTerms = StreamTerms { held_blocks: true, wait: Duration::from_secs(600) };
/// They are not.
pub const LENIENT: StreamTerms = StreamTerms { held_blocks: false, ..STRICT };

/// The `n`-th dead letter, of the first stream, made so many seconds after the beginning.
pub async fn made_at(store: &Backend, n: u64, seconds: i64, changes: Value) {
    let made = json!({ "stream_id": stream(1), "source_created_at": time_text(at(seconds)) });
    store.dead(n, crate::harness::rows::with(made, changes)).await;
}

async fn order(store: &Backend, ids: &[Uuid], held_blocks: bool) -> Vec<InStream> {
    store.stream_order(&StreamOrder { ids, passed: &[], standing: &[], held_blocks }).await.unwrap()
}

/// What stands before a row, by the number of its dead letter.
async fn before(store: &Backend, n: u64, held_blocks: bool) -> Option<Uuid> {
    order(store, &[id(n)], held_blocks).await[0].predecessor.map(|earlier| earlier.dead_letter_id)
}

/// The `n`-th dead letter waits for an earlier one.
pub async fn waiting_row(store: &Backend, n: u64, seconds: i64) {
    let waits = json!({ "deferral": "stream", "next_recovery_at": time_text(at(5000)), "status_note": "waits" });
    made_at(store, n, seconds, waits).await;
}

/// When the rows that wait fall due, those that wait still left out.
pub async fn woken(store: &Backend, rows: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut due = Vec::new();
    for n in rows {
        let letter = store.letter(id(n)).await;
        if letter.deferral.is_none() && letter.recovery_status == RecoveryStatus::Pending {
            assert_eq!(letter.status_note, None);
            due.push((letter.next_recovery_at.expect("a time"), n));
        }
    }
    due.sort_unstable();
    due.into_iter().map(|(_, n)| n).collect()
}

fn behind(claimed: &Claimed, n: u64, earlier: u64) -> Ending {
    let entry = claimed.entries().into_iter().find(|entry| entry.dead_letter_id == id(n)).expect("it was claimed");
    let next_recovery_at = Some(at(5000));
    let deferral = Some(Deferral::Stream);
    let waits = Standing { status: RecoveryStatus::Pending, next_recovery_at, deferral };
    let seen = Seen { predecessor: Some(id(earlier)), ..Seen::of(&entry) };
    Ending { seen, ..ending(&entry, waits, Some("waits")) }
}

on_both_stores! {
    async fn position_comes_first_then_time_then_message_then_dead_letter(store: Backend) {
        let perspective = |position: Option<i64>| json!({
            "source_table": "wh_perspective_events", "message_type": "perspective_event", "destination": null,
            "perspective_name": "orders", "source_position": position,
        });
        made_at(&store, 1, 30, perspective(None)).await;
        made_at(&store, 2, 10, perspective(None)).await;
        made_at(&store, 3, 90, perspective(Some(7))).await;
        made_at(&store, 4, 80, perspective(Some(8))).await;
        let mut died_at_20 = perspective(None);
        died_at_20["source_created_at"] = Value::Null;
        died_at_20["dead_lettered_at"] = json!(time_text(at(20)));
        made_at(&store, 5, 0, died_at_20).await;
        let mut beside = perspective(Some(8));
        beside["source_id"] = json!(source(3000));
        made_at(&store, 6, 80, beside).await;

        let all: Vec<Uuid> = (1..=6).map(id).collect();
        let placed: Vec<Uuid> = order(&store, &all, false).await.iter().map(|row| row.dead_letter_id).collect();

        assert_eq!(placed, [3, 4, 6, 2, 5, 1].map(id));
        assert_eq!(before(&store, 3, false).await, None);
        for n in [4, 6, 2, 5, 1] {
            assert_eq!(before(&store, n, false).await, Some(id(3)), "{n} waits for the first of all");
        }
    }

    async fn rows_of_other_streams_and_of_none_are_in_nobodys_way(store: Backend) {
        made_at(&store, 1, 1, json!({ "stream_id": stream(2) })).await;
        made_at(&store, 2, 2, json!({ "source_table": "wh_inbox" })).await;
        made_at(&store, 3, 3, json!({ "stream_id": null })).await;
        made_at(&store, 4, 4, json!({ "stream_id": Uuid::nil() })).await;
        made_at(&store, 5, 5, json!({ "stream_id": Uuid::nil() })).await;
        made_at(&store, 6, 6, json!({})).await;

        for n in 1..=6 {
            assert_eq!(before(&store, n, true).await, None, "{n}");
        }
    }

    async fn open_rows_are_in_the_way_and_held_ones_where_that_counts(store: Backend) {
        made_at(&store, 1, 1, json!({ "recovery_status": 3, "recovered_at": time_text(at(9)) })).await;
        made_at(&store, 2, 2, json!({ "recovery_status": 4 })).await;
        made_at(&store, 3, 3, json!({ "operator_disposition": 3 })).await;
        made_at(&store, 4, 4, json!({})).await;
        made_at(&store, 5, 5, json!({ "operator_disposition": 2 })).await;
        made_at(&store, 6, 6, json!({ "recovery_status": 2 })).await;
        made_at(&store, 7, 7, json!({ "next_recovery_at": time_text(at(700)) })).await;
        made_at(&store, 8, 8, json!({})).await;

        assert_eq!(before(&store, 4, true).await, None);
        assert_eq!(before(&store, 8, false).await, Some(id(4)));
        store.execute(&format!("delete from wh_dead_letters where dead_letter_id = '{}'", id(4))).await;
        assert_eq!(before(&store, 8, true).await, Some(id(5)));
        store.execute(&format!("delete from wh_dead_letters where dead_letter_id = '{}'", id(5))).await;
        assert_eq!(before(&store, 8, true).await, Some(id(6)));
        let first = order(&store, &[id(8)], false).await[0].predecessor;
        assert_eq!(first, Some(Predecessor { dead_letter_id: id(7), due_at: Some(at(700)) }));
    }

    async fn the_rows_asked_about_and_those_to_be_passed_are_in_nobodys_way(store: Backend) {
        for n in 1..=4 {
            made_at(&store, n, i64::try_from(n).unwrap(), json!({})).await;
        }

        let request = StreamOrder { ids: &[id(1), id(4)], passed: &[id(2)], standing: &[], held_blocks: false };
        let found = store.stream_order(&request).await.unwrap();

        let earlier: Vec<Option<Uuid>> = found.iter().map(|row| row.predecessor.map(|row| row.dead_letter_id)).collect();
        assert_eq!(earlier, [None, Some(id(3))]);
    }

    async fn a_row_is_passed_that_the_policy_last_gave_no_part_in_the_order(store: Backend) {
        made_at(&store, 1, 1, json!({})).await;
        made_at(&store, 2, 2, json!({})).await;
        let said = async |n: u64, seconds: i64, rule: Value| {
            let row = json!({
                "decision_id": id(n + 500), "dead_letter_id": id(1), "decided_at": time_text(at(seconds)),
                "decision": "wait", "rule": rule,
            });
            store.insert("wh_dead_letter_decisions", &row).await;
        };
        said(1, 10, json!({ "stream_mode": "tail-aware" })).await;
        assert_eq!(before(&store, 2, false).await, Some(id(1)));
        said(2, 20, json!({ "stream_mode": "per-message" })).await;
        assert_eq!(before(&store, 2, false).await, None);
        said(3, 30, json!({ "actor": "kim" })).await;
        assert_eq!(before(&store, 2, false).await, None, "an operator says nothing about it");

        let request = StreamOrder { ids: &[id(2)], passed: &[], standing: &[id(1)], held_blocks: false };
        assert!(store.stream_order(&request).await.unwrap()[0].predecessor.is_some(), "now it does");
    }

    async fn what_rows_wait_for_is_an_open_row_else_a_held_one(store: Backend) {
        made_at(&store, 1, 1, json!({ "recovery_status": 2 })).await;
        waiting_row(&store, 2, 2).await;
        made_at(&store, 3, 3, json!({})).await;
        assert_eq!(store.waits_for(&[id(1), id(2), id(3), id(99)]).await.unwrap(), [(id(2), id(1))].into());
        made_at(&store, 4, 0, json!({})).await;
        assert_eq!(store.waits_for(&[id(2)]).await.unwrap(), [(id(2), id(4))].into());
        store.execute("delete from wh_dead_letters where deferral is null").await;
        assert!(store.waits_for(&[id(2)]).await.unwrap().is_empty());
    }

    async fn a_row_is_put_off_only_while_the_other_stands_in_its_way(store: Backend) {
        made_at(&store, 1, 1, json!({ "next_recovery_at": time_text(at(5000)) })).await;
        made_at(&store, 2, 2, json!({})).await;
        for (verb, stands) in [("", true), ("recovery_status = 2", false), ("operator_disposition = 3", false)] {
            let claimed = claim(&*store, 10, at(100)).await;
            if !verb.is_empty() {
                store.execute(&format!("update wh_dead_letters set {verb} where dead_letter_id = '{}'", id(1))).await;
            }
            let endings = [behind(&claimed, 2, 1)];
            let begin = Begin {
                batch_id: claimed.batch_id, recover: &[], endings: &endings, streams: LENIENT, now: Some(at(100)),
            };
            let begun = store.begin(&begin).await.unwrap();
            assert_eq!(begun, Begun::Done { ended: if stands { vec![id(2)] } else { vec![] } }, "{verb}");
            assert_eq!(store.letter(id(2)).await.next_recovery_at, stands.then(|| at(5000)), "{verb}: else it is due");
            store.execute("update wh_dead_letters set recovery_status = 0, deferral = null").await;
            let due = format!("update wh_dead_letters set next_recovery_at = null where dead_letter_id = '{}'", id(2));
            store.execute(&due).await;
        }
    }

    async fn a_row_that_is_put_off_behind_one_that_this_batch_ends_is_due_at_once(store: Backend) {
        made_at(&store, 1, 1, json!({})).await;
        made_at(&store, 2, 2, json!({})).await;
        let claimed = claim(&*store, 10, at(100)).await;
        let held = ending(&claimed.entries()[0], ended(RecoveryStatus::HoldForReview), None);
        let endings = [held, behind(&claimed, 2, 1)];

        let (batch_id, now) = (claimed.batch_id, Some(at(100)));
        store.begin(&Begin { batch_id, recover: &[], endings: &endings, streams: LENIENT, now }).await.unwrap();

        assert_eq!(woken(&store, [2]).await, [2]);
    }

    async fn a_rescue_that_holds_a_row_makes_those_due_that_waited_for_it(store: Backend) {
        made_at(&store, 1, 1, json!({ "policy_errors": 4 })).await;
        waiting_row(&store, 2, 2).await;
        claim(&*store, 10, at(100)).await;

        store.rescue(5, Some(at(1000))).await.unwrap();

        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::HoldForReview);
        assert_eq!(woken(&store, [2]).await, [2]);
    }

    async fn rows_that_an_application_held_by_sql_while_they_waited_leave_room_for_those_behind_them(store: Backend) {
        const WOKEN_AT_ONCE: u64 = 1000;
        made_at(&store, 1, 1, json!({})).await;
        for n in 2..=WOKEN_AT_ONCE + 1 {
            waiting_row(&store, n, 2).await;
        }
        store.execute("update wh_dead_letters set recovery_status = 2 where deferral = 'stream'").await;
        let last = WOKEN_AT_ONCE + 2;
        waiting_row(&store, last, 3).await;

        store.mark_dead_letter_holding(id(1)).await.unwrap();

        assert_eq!(woken(&store, [last]).await, [last]);
    }
}
