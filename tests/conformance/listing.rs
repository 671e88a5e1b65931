//! Listing rows.

use reprieve::model::{FailureReason, RecoveryStatus, SourceTable};
use reprieve::store::{Filter, Page};
use serde_json::json;
use uuid::Uuid;

use crate::harness::backend::ids_of;
use crate::harness::{Backend, at, claim, dead_letter, id, stream, time_text};

const ALL: Page = Page { limit: 100, after: None };

async fn listed(store: &Backend, filter: Filter) -> Vec<Uuid> {
    let rows = store.list(&filter, &ALL).await.unwrap();
    assert_eq!(store.count(&filter).await.unwrap(), u64::try_from(rows.len()).unwrap(), "a count is that of the list");
    ids_of(&rows)
}

fn of_status(status: RecoveryStatus) -> Filter {
    Filter { status: Some(status), ..Filter::default() }
}

fn of_type(glob: &str) -> Filter {
    Filter { message_type: Some(glob.to_owned()), ..Filter::default() }
}

on_both_stores! {
    async fn the_newest_death_comes_first_and_ties_go_by_id(store: Backend) {
        for (n, died) in [(1, 30), (2, 10), (3, 20), (4, 20)] {
            store.dead(n, json!({"dead_lettered_at": time_text(at(died))})).await;
        }

        assert_eq!(listed(&store, Filter::default()).await, [id(1), id(4), id(3), id(2)]);
    }

    async fn pages_meet_without_gap_or_overlap(store: Backend) {
        for n in 1..=7 {
            let died = time_text(at(i64::try_from(n / 3).unwrap()));
            store.dead(n, json!({"dead_lettered_at": died})).await;
        }
        let all = listed(&store, Filter::default()).await;

        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = ids_of(&store.list(&Filter::default(), &Page { limit: 2, after }).await.unwrap());
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            after = Some(*last);
            paged.extend(page);
        }

        assert_eq!(paged, all);
    }

    async fn a_status_selects_its_rows(store: Backend) {
        for (n, status) in [(1, 0), (2, 2), (3, 4), (4, 2)] {
            store.dead(n, json!({"recovery_status": status})).await;
        }
        let recovered = json!({"recovery_status": 3, "recovered_at": time_text(at(5))});
        store.dead(5, recovered).await;

        assert_eq!(listed(&store, of_status(RecoveryStatus::Pending)).await, [id(1)]);
        assert_eq!(listed(&store, of_status(RecoveryStatus::HoldForReview)).await, [id(4), id(2)]);
        assert_eq!(listed(&store, of_status(RecoveryStatus::PermanentlyFailed)).await, [id(3)]);
        assert_eq!(listed(&store, of_status(RecoveryStatus::Recovered)).await, [id(5)]);
        assert!(listed(&store, of_status(RecoveryStatus::Recovering)).await.is_empty());
    }

    async fn a_row_in_a_live_batch_is_shown_as_recovering(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        // By the database's clock: a listing has no other.
        claim(&*store, 1, jiff::Timestamp::now()).await;

        assert_eq!(listed(&store, of_status(RecoveryStatus::Recovering)).await, [id(1)]);
        assert_eq!(listed(&store, of_status(RecoveryStatus::Pending)).await, [id(2)]);
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::Recovering);
    }

    async fn a_batch_whose_lease_ended_shows_nothing(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        claim(&*store, 1, at(100)).await;

        assert_eq!(listed(&store, of_status(RecoveryStatus::Pending)).await, [id(1)]);
    }

    async fn reason_table_and_stream_select_and_add_up(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.dead(2, json!({"failure_reason": 4711})).await;
        store.dead(3, json!({"source_table": "wh_inbox", "stream_id": stream(1)})).await;
        store.dead(4, json!({"stream_id": stream(1)})).await;

        let of_reason = |reason| Filter { reason: Some(FailureReason(reason)), ..Filter::default() };
        assert_eq!(listed(&store, of_reason(8)).await, [id(4), id(3), id(1)]);
        assert_eq!(listed(&store, of_reason(4711)).await, [id(2)]);
        let inbox = Filter { source_table: Some(SourceTable::Inbox), ..Filter::default() };
        assert_eq!(listed(&store, inbox).await, [id(3)]);
        let of_stream = Filter { stream_id: Some(stream(1)), ..Filter::default() };
        assert_eq!(listed(&store, of_stream.clone()).await, [id(4), id(3)]);
        let both = Filter { source_table: Some(SourceTable::Outbox), ..of_stream };
        assert_eq!(listed(&store, both).await, [id(4)]);
        assert!(listed(&store, Filter { reason: Some(FailureReason(1)), ..Filter::default() }).await.is_empty());
    }

    async fn a_glob_selects_message_types(store: Backend) {
        let types = [
            "OrderPlaced", "orderplaced", "OrderPaid", "Order", "a.b", "axb", "100%", "10_0", "[x]", "Ünïcode",
            "back\\slash",
        ];
        for (n, kind) in (1..).zip(types) {
            store.dead(n, json!({"message_type": kind})).await;
        }
        for (glob, expected) in [
            ("OrderPlaced", vec!["OrderPlaced"]),
            ("Order*", vec!["Order", "OrderPaid", "OrderPlaced"]),
            ("*Placed", vec!["OrderPlaced"]),
            ("*r*d*", vec!["Order", "OrderPaid", "OrderPlaced", "orderplaced"]),
            ("Order?aid", vec!["OrderPaid"]),
            ("a.b", vec!["a.b"]),
            ("a?b", vec!["a.b", "axb"]),
            ("100%", vec!["100%"]),
            ("10_0", vec!["10_0"]),
            ("[Oo]rderplaced", vec!["orderplaced"]),
            ("[!O]rderplaced", vec!["orderplaced"]),
            ("[a-n]xb", vec!["axb"]),
            ("[[]x]", vec!["[x]"]),
            ("?nïcode", vec!["Ünïcode"]),
            ("back\\slash", vec!["back\\slash"]),
            ("", vec![]),
            ("%", vec![]),
            ("(", vec![]),
        ] {
            let mut found: Vec<String> = Vec::new();
            for dead_letter_id in listed(&store, of_type(glob)).await {
                found.push(store.letter(dead_letter_id).await.message_type);
            }
            found.sort();
            assert_eq!(found, expected, "{glob}");
        }
        assert_eq!(listed(&store, of_type("*")).await.len(), types.len());
    }

    async fn a_filter_is_data_and_never_sql(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert!(listed(&store, of_type("' or '1'='1")).await.is_empty());
        assert!(listed(&store, of_type("'; drop table wh_dead_letters; --")).await.is_empty());

        assert_eq!(store.rows_in("wh_dead_letters").await, 1);
    }
}
