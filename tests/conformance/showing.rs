//! One row with everything known about it.

use reprieve::model::{RecoveryStatus, SourceTable};
use serde_json::{Value, json};

use crate::harness::rows::moving;
use crate::harness::{Backend, at, dead_letter, id, outbox_row, recover_all, source, time_text};

on_both_stores! {
    async fn the_body_and_the_source_row_are_shown(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();

        let whole = store.show(id(1)).await.unwrap().unwrap();

        let envelope: Value = serde_json::from_str(&whole.envelope).unwrap();
        assert_eq!(envelope["event_data"], outbox_row(1)["event_data"]);
        let source_row: Value = serde_json::from_str(whole.source_row.as_deref().unwrap()).unwrap();
        assert_eq!(source_row["partition_number"], 3);
        assert!(whole.incarnations.is_empty() && whole.decisions.is_empty());
    }

    async fn other_deaths_of_the_message_are_listed_oldest_first(store: Backend) {
        for n in [1, 2, 3] {
            let changes = json!({"source_id": source(1), "incarnation": n, "generation": format!("g{n}")});
            store.dead(n, changes).await;
        }
        let recovered = format!(
            "update wh_dead_letters set recovery_status = 3, recovered_at = '{}' where dead_letter_id = '{}'",
            time_text(at(9)), id(1)
        );
        store.execute(&recovered).await;

        let whole = store.show(id(2)).await.unwrap().unwrap();

        let others: Vec<_> = whole
            .incarnations
            .iter()
            .map(|other| (other.dead_letter_id, other.incarnation, other.generation.as_str(), other.recovery_status))
            .collect();
        assert_eq!(others, [
            (id(1), 1, "g1", RecoveryStatus::Recovered),
            (id(3), 3, "g3", RecoveryStatus::Pending),
        ]);
        assert_eq!(whole.incarnations[0].dead_lettered_at, at(1));
    }

    async fn decisions_are_listed_oldest_first(store: Backend) {
        store.execute(&crate::harness::rows::refuse_destination(&store, "orders")).await;
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        for now in [100, 200, 300] {
            assert_eq!(recover_all(&*store, at(now)).await.len(), 1);
        }

        let times: Vec<_> =
            store.show(id(1)).await.unwrap().unwrap().decisions.iter().map(|decision| decision.decided_at).collect();

        assert_eq!(times, [at(100), at(200), at(300)]);
    }

    async fn an_unknown_id_shows_nothing(store: Backend) {
        assert!(store.show(id(1)).await.unwrap().is_none());
    }

    async fn a_row_without_source_row_says_so(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;

        assert_eq!(store.show(id(1)).await.unwrap().unwrap().source_row, None);
    }
}
