//! The gate: who comes through, who is moved, and what happens when that fails.

use reprieve::model::{FailureReason, SourceTable};
use reprieve::perspective::{Filtered, Gate, Message};
use reprieve::store::perspective::ClaimedEvent;
use serde_json::json;

use super::moving_leased::refuse_dead_letter;
use super::program::{gate, has_line};
use super::{arrives_as, attempts_of, claims};
use crate::harness::rows::{event, moving, with};
use crate::harness::{Backend, at, inbox_row, instance, outbox_row, source, stream};

/// The first instance claims a stream whose rows had been claimed so often before.
async fn claimed_with(store: &Backend, before: &[(u64, i32)]) -> Vec<ClaimedEvent> {
    for (n, attempts) in before {
        arrives_as(store, *n, 1, json!({ "attempts": attempts })).await;
    }
    claims(&**store, 1, 1, 0).await
}

fn perspective_gate(store: &Backend) -> Gate {
    gate(store, SourceTable::PerspectiveEvents, 1)
}

const ADDED: &str =
    r#"whizbang_dead_letters_added_total{source_table="wh_perspective_events",reason="MaxAttemptsExceeded"} 1"#;
const FAILED: &str = r#"reprieve_failed_moves_total{source_table="wh_perspective_events"} 1"#;

on_both_stores! {
    async fn of_eleven_and_three_attempts_the_three_survive(store: Backend) {
        let rows = claimed_with(&store, &[(1, 10), (2, 2)]).await;
        assert_eq!(attempts_of(&rows), [(source(1), 11), (source(2), 3)]);
        let gate = perspective_gate(&store);

        let filtered = gate.filter(rows.clone(), Some(at(5))).await;

        assert_eq!(filtered, Filtered { survivors: rows[1..].to_vec(), moved: 1, gone: 0, failed: 0 });
        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
        let letter = store.query("select * from wh_dead_letters").await.remove(0);
        assert_eq!((&letter["source_id"], &letter["source_table"]), (&json!(source(1)), &json!("wh_perspective_events")));
        assert_eq!((&letter["failure_reason"], &letter["generation"]), (&json!(5), &json!("g1")));
        assert_eq!((&letter["attempts_when_dlq"], &letter["dead_lettered_by"]), (&json!(11), &json!(instance(1))));
        let text = letter["error_text"].as_str().unwrap();
        for part in ["11", "10", "totals", &stream(1).to_string(), &event(1).to_string()] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(has_line(&gate.metrics, ADDED));
    }

    async fn attempts_equal_to_the_cap_survive(store: Backend) {
        let rows = claimed_with(&store, &[(1, 9)]).await;
        assert_eq!(rows[0].attempts, 10);

        let filtered = perspective_gate(&store).filter(rows.clone(), Some(at(5))).await;

        assert_eq!((filtered.survivors, filtered.moved), (rows, 0));
    }

    async fn without_a_cap_a_store_or_a_generation_nothing_is_asked(store: Backend) {
        let rows = claimed_with(&store, &[(1, 500), (2, 0)]).await;
        // Whoever asks for a move now is refused, which would be counted.
        store.execute("alter table wh_dead_letters rename to elsewhere").await;
        let untouched = Filtered { survivors: rows.clone(), moved: 0, gone: 0, failed: 0 };
        let capped = perspective_gate(&store);
        for gate in [
            Gate { max_attempts: None, ..capped.clone() },
            Gate { dead_letters: None, ..capped.clone() },
            Gate { generation: None, ..capped.clone() },
        ] {
            assert_eq!(gate.filter(rows.clone(), Some(at(5))).await, untouched);
        }
        assert_eq!(capped.filter(rows, Some(at(5))).await.failed, 1, "asking would have failed");
    }

    async fn a_row_that_somebody_else_moved_is_dropped_and_not_counted_as_added(store: Backend) {
        let rows = claimed_with(&store, &[(1, 10), (2, 2)]).await;
        store.move_to_dead_letters(&moving(SourceTable::PerspectiveEvents, 1)).await.unwrap().expect("moved");
        let gate = perspective_gate(&store);

        let filtered = gate.filter(rows.clone(), Some(at(5))).await;

        assert_eq!(filtered, Filtered { survivors: rows[1..].to_vec(), moved: 0, gone: 1, failed: 0 });
        assert!(!gate.metrics.encode().contains("added_total{"));
        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
    }

    async fn a_row_that_another_instance_took_over_is_dropped_and_left_to_it(store: Backend) {
        let rows = claimed_with(&store, &[(1, 10)]).await;
        claims(&*store, 2, 1, 60).await;

        let filtered = perspective_gate(&store).filter(rows, Some(at(61))).await;

        assert_eq!(filtered, Filtered { survivors: vec![], moved: 0, gone: 1, failed: 0 });
        assert_eq!(super::row(&store, 1).await["instance_id"], json!(instance(2)));
    }

    async fn a_row_that_cannot_be_moved_stays_in_its_place_and_the_others_are_moved(store: Backend) {
        store.execute(&refuse_dead_letter(&store, 2)).await;
        let rows = claimed_with(&store, &[(1, 0), (2, 10), (3, 10), (4, 0)]).await;
        let gate = perspective_gate(&store);

        let filtered = gate.filter(rows.clone(), Some(at(5))).await;

        let survivors: Vec<_> = filtered.survivors.iter().map(|row| row.event_work_id).collect();
        assert_eq!(survivors, [source(1), source(2), source(4)]);
        assert_eq!((filtered.moved, filtered.gone, filtered.failed), (1, 0, 1));
        assert!(has_line(&gate.metrics, FAILED) && has_line(&gate.metrics, ADDED));
    }

    async fn a_store_that_refuses_altogether_loses_no_row(store: Backend) {
        let rows = claimed_with(&store, &[(1, 10), (2, 0)]).await;
        store.execute("alter table wh_dead_letters rename to elsewhere").await;
        let gate = perspective_gate(&store);

        let filtered = gate.filter(rows.clone(), Some(at(5))).await;

        assert_eq!(filtered, Filtered { survivors: rows, moved: 0, gone: 0, failed: 1 });
        assert!(has_line(&gate.metrics, FAILED));
    }

    async fn inbox_and_outbox_have_the_same_gate(store: Backend) {
        for (table, row) in [(SourceTable::Outbox, outbox_row(1)), (SourceTable::Inbox, inbox_row(1))] {
            let claimed = json!({"instance_id": instance(1), "attempts": 11, "processed_at": null});
            store.insert(table.name(), &with(row, claimed)).await;
            let message = |n, attempts| Message {
                message_id: source(n),
                message_type: "OrderPlaced".to_owned(),
                attempts,
            };

            let filtered = gate(&store, table, 1).filter(vec![message(2, 10), message(1, 11)], Some(at(5))).await;

            assert_eq!(filtered.survivors, [message(2, 10)], "{table}");
            assert_eq!((filtered.moved, store.rows_in(table.name()).await), (1, 0), "{table}");
        }
        let letters = store.query("select * from wh_dead_letters").await;
        assert_eq!(letters.len(), 2);
        assert!(letters.iter().all(|letter| letter["error_text"].as_str().unwrap().contains("OrderPlaced")));
        assert!(letters.iter().all(|letter| letter["failure_reason"] == json!(FailureReason(5).0)));
    }
}
