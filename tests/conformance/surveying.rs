//! Reading through all rows and all recorded decisions, page by page, without changing any.

use jiff::Timestamp;
use reprieve::model::RecoveryStatus::{self, HoldForReview, Pending, PermanentlyFailed, Recovered, Recovering};
use reprieve::store::open::{Options, open};
use reprieve::store::{History, StoreError, Survey};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Backend, at, claim, dead_letter, id, source, time_text};

const OPEN: &[RecoveryStatus] = &[Pending, Recovering, HoldForReview];

/// The ids that a survey in small pages gives, and how many rows it could not read.
async fn surveyed(store: &Backend, statuses: &[RecoveryStatus], since: Option<Timestamp>) -> (Vec<Uuid>, usize) {
    let (mut ids, mut unreadable, mut place) = (Vec::new(), 0, None);
    loop {
        let page = store.survey(&Survey { statuses, since, after: place.as_ref(), limit: 2 }).await.unwrap();
        assert!(page.rows.len() + page.unreadable.len() <= 2);
        ids.extend(page.rows.iter().map(|row| row.entry.dead_letter_id));
        unreadable += page.unreadable.len();
        let Some(next) = page.next else { return (ids, unreadable) };
        place = Some(next);
    }
}

fn record(n: u64, changes: serde_json::Value) -> serde_json::Value {
    let record = json!({
        "decision_id": id(n), "dead_letter_id": id(100 + n), "decided_at": time_text(at(n.try_into().unwrap())),
        "decision": "recover", "policy_name": "p", "policy_digest": "d", "attempt": 1, "rule": {"name": "R"},
        "inputs": {"failure_reason": "Throttled"}, "note": "recovered",
    });
    crate::harness::rows::with(record, changes)
}

/// The numbers of the records that a history in small pages gives.
async fn recorded(store: &Backend, since: Option<Timestamp>) -> Vec<Uuid> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.history(&History { since, after, limit: 2 }).await.unwrap();
        assert_eq!(page.unreadable, 0);
        ids.extend(page.decisions.iter().map(|(_, decision)| decision.decision_id));
        let Some(next) = page.next else { return ids };
        after = Some(next);
    }
}

on_both_stores! {
    async fn pages_meet_without_gap_or_overlap_in_the_order_of_dying(store: Backend) {
        for (n, died) in [(1, 30), (2, 10), (3, 20), (4, 20), (5, 20), (6, 20), (7, 5)] {
            store.dead(n, json!({"dead_lettered_at": time_text(at(died))})).await;
        }

        assert_eq!(surveyed(&store, OPEN, None).await.0, [7, 2, 3, 4, 5, 6, 1].map(id));
    }

    async fn an_empty_table_is_at_its_end(store: Backend) {
        assert_eq!(surveyed(&store, OPEN, None).await, (Vec::new(), 0));
        assert!(recorded(&store, None).await.is_empty());
    }

    async fn a_status_selects_its_rows_also_behind_pages_without_any(store: Backend) {
        for n in 1..=9 {
            let status = match n { 8 => 2, 9 => 4, _ => 0 };
            store.dead(n, json!({"recovery_status": status})).await;
        }
        store.dead(10, json!({"recovery_status": 3, "recovered_at": time_text(at(5))})).await;

        assert_eq!(surveyed(&store, &[HoldForReview], None).await.0, [id(8)]);
        assert_eq!(surveyed(&store, &[PermanentlyFailed], None).await.0, [id(9)]);
        assert_eq!(surveyed(&store, &[Recovered], None).await.0, [id(10)]);
        assert_eq!(surveyed(&store, OPEN, None).await.0, [1, 2, 3, 4, 5, 6, 7, 8].map(id));
        assert_eq!(surveyed(&store, RecoveryStatus::ALL, None).await.0.len(), 10);
    }

    async fn a_row_in_a_live_batch_is_surveyed_as_recovering(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        claim(&*store, 1, Timestamp::now()).await;

        assert_eq!(surveyed(&store, &[Recovering], None).await.0, [id(1)]);
        assert_eq!(surveyed(&store, &[Pending], None).await.0, [id(2)]);
    }

    async fn what_died_before_is_left_out(store: Backend) {
        for n in 1..=5 {
            store.dead(n, json!({})).await;
        }
        let settled = json!({"recovery_status": 3, "recovered_at": time_text(at(50))});
        store.dead(6, settled).await;

        assert_eq!(surveyed(&store, OPEN, Some(at(4))).await.0, [id(4), id(5)]);
        assert_eq!(surveyed(&store, RecoveryStatus::ALL, Some(at(5))).await.0, [id(5), id(6)]);
        assert!(surveyed(&store, OPEN, Some(at(7))).await.0.is_empty());
    }

    async fn a_newer_death_of_the_message_is_told(store: Backend) {
        for n in 1..=3 {
            store.dead(n, json!({"source_id": source(1), "incarnation": n})).await;
        }

        let page = store.survey(&Survey { statuses: OPEN, since: None, after: None, limit: 10 }).await.unwrap();

        let newer: Vec<_> = page.rows.iter().map(|row| row.siblings.superseded_by).collect();
        assert_eq!(newer, [Some(id(3)), Some(id(3)), None]);
        assert!(page.now.is_some());
    }

    async fn a_row_that_cannot_be_read_is_told_and_keeps_no_other_away(store: Backend) {
        for n in 1..=5 {
            store.dead(n, json!({})).await;
        }
        let never = if store.is_postgres() { "infinity" } else { "yesterday" };
        for n in [2, 4] {
            let id = id(n);
            store.execute(&format!("update wh_dead_letters set last_recovery_at = '{never}' where dead_letter_id = '{id}'")).await;
        }
        let first = if store.is_postgres() { "-infinity" } else { "0 o''clock" };
        store.execute(&format!("update wh_dead_letters set dead_lettered_at = '{first}' where dead_letter_id = '{}'", id(5))).await;

        assert_eq!(surveyed(&store, OPEN, None).await, (vec![id(1), id(3)], 3));
    }

    async fn decisions_of_policies_are_given_and_what_operators_asked_for_is_not(store: Backend) {
        for n in [1, 2, 3, 5, 6] {
            store.insert("wh_dead_letter_decisions", &record(n, json!({}))).await;
        }
        let retry = json!({"decision": "retry", "policy_name": null, "policy_digest": null, "inputs": null});
        store.insert("wh_dead_letter_decisions", &record(4, retry)).await;

        assert_eq!(recorded(&store, None).await, [1, 2, 3, 5, 6].map(id));
        assert_eq!(recorded(&store, Some(at(3))).await, [3, 5, 6].map(id));
        let page = store.history(&History { since: None, after: None, limit: 1 }).await.unwrap();
        let (dead_letter, decision) = &page.decisions[0];
        assert_eq!((*dead_letter, decision.decided_at, decision.decision.as_str()), (id(101), at(1), "recover"));
        assert!(decision.inputs.as_ref().unwrap().contains("Throttled"));
    }

    async fn a_store_that_is_opened_for_reading_reads_and_changes_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        let reader = open(&store.url, &Options { read_only: true, ..Options::default() }).await.unwrap();

        reader.check_schema().await.unwrap();
        let page = reader.survey(&Survey { statuses: OPEN, since: None, after: None, limit: 10 }).await.unwrap();
        assert_eq!(page.rows.len(), 1);
        let refused = reader.mark_dead_letter_holding(id(1)).await.expect_err("it wrote");
        assert!(matches!(refused, StoreError::Unusable { .. } | StoreError::Database { .. }), "{refused}");
        assert_eq!(store.letter(id(1)).await.recovery_status, Pending);
    }
}

#[tokio::test]
async fn a_missing_file_is_not_made_by_reading() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("gone.db").display());
    let refused = open(&url, &Options { read_only: true, ..Options::default() }).await.err().unwrap();
    assert!(matches!(refused, StoreError::NotMigrated { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
