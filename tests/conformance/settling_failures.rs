//! One bad row does not keep the others from returning.

use reprieve::model::{RecoveryStatus, SourceTable};
use reprieve::store::{Outcome, Settled};
use serde_json::json;

use crate::harness::backend::on_postgres;
use crate::harness::rows::{inbox_row, moving, refuse_destination, with};
use crate::harness::{Backend, at, dead_letter, id, outbox_row, recover_all, source, stream, time_text};

fn recovered(settled: &[Settled]) -> Vec<uuid::Uuid> {
    settled.iter().filter(|row| row.outcome == Outcome::Recovered).map(|row| row.dead_letter_id).collect()
}

on_both_stores! {
    async fn bad_rows_at_any_place_of_a_batch_stand_alone(store: Backend) {
        store.execute(&refuse_destination(&store, "refused")).await;
        let bad = [1, 7, 8, 16, 33];
        for n in 1..=33 {
            let destination = if bad.contains(&n) { "refused" } else { "orders" };
            store.dead(n, json!({"destination": destination})).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled), (1..=33).filter(|n| !bad.contains(n)).map(id).collect::<Vec<_>>());
        assert_eq!(store.rows_in("wh_outbox").await, 28);
        for n in bad {
            assert_eq!(store.letter(id(n)).await.recovery_status, RecoveryStatus::Pending);
        }
    }

    async fn a_column_that_became_mandatory_fails_each_row_that_lacks_it(store: Backend) {
        store.execute("alter table wh_outbox add column tenant text").await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({"tenant": "acme"}))).await;
        store.insert("wh_outbox", &with(outbox_row(2), json!({"tenant": null}))).await;
        for n in [1, 2] {
            store.move_to_dead_letters(&moving(SourceTable::Outbox, n)).await.unwrap();
        }
        if store.is_postgres() {
            store.execute("alter table wh_outbox add constraint tenant_given check (tenant is not null)").await;
        } else {
            store.execute("create trigger tenant_given before insert on wh_outbox when new.tenant is null
                           begin select raise(abort, 'tenant_given'); end").await;
        }

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled), [id(1)]);
        let note = store.letter(id(2)).await.status_note.unwrap();
        assert!(note.contains("tenant_given"), "{note}");
    }

    async fn two_rows_that_exclude_each_other_are_told_apart(store: Backend) {
        store.execute("create unique index one_per_partition on wh_outbox (partition_number)").await;
        for n in [1, 2] {
            let source_row = json!({
                "message_id": source(n), "message_type": "OrderPlaced", "destination": "orders", "partition_number": 5,
            });
            store.dead(n, json!({"source_row": source_row})).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!((&settled[0].outcome, &settled[1].outcome), (&Outcome::Recovered, &Outcome::SourcePresent));
    }

    async fn rows_are_re_emitted_in_the_order_that_was_asked_for(store: Backend) {
        let sequence = if store.is_postgres() { "add column place bigserial" } else { "add column place integer" };
        store.execute(&format!("alter table wh_outbox {sequence}")).await;
        for n in 1..=20 {
            let died = time_text(at(i64::try_from((n * 7) % 20).unwrap()));
            store.dead(n, json!({"dead_lettered_at": died, "stream_id": stream(1)})).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        let order: Vec<uuid::Uuid> = settled.iter().map(|row| row.dead_letter_id).collect();
        let by = if store.is_postgres() { "place" } else { "rowid" };
        let emitted = store.query(&format!("select message_id from wh_outbox order by {by}")).await;
        let emitted: Vec<String> = emitted.iter().map(|row| row["message_id"].as_str().unwrap().to_owned()).collect();
        let expected: Vec<String> = order
            .iter()
            .map(|dead_letter_id| (1..=20).find(|n| id(*n) == *dead_letter_id).expect("one of these"))
            .map(|n| source(n).to_string())
            .collect();
        assert_eq!(emitted, expected);
    }

    async fn a_bad_envelope_fails_its_row_only(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(1)).await;
        store.dead(2, json!({"envelope": [1, 2, 3]})).await;
        store.insert("wh_dead_letters", &dead_letter(3)).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled), [id(1), id(3)]);
        assert_ne!(store.letter(id(2)).await.recovery_status, RecoveryStatus::Recovered);
    }
}

#[test]
fn what_the_database_would_check_at_the_end_of_the_transaction_fails_its_own_row_alone() {
    on_postgres(async |store| {
        store
            .execute(
                "create table queues (name text primary key);
                 insert into queues values ('orders');
                 alter table wh_outbox add constraint known_queue foreign key (destination) references queues
                     deferrable initially deferred",
            )
            .await;
        for n in 1..=4 {
            store.dead(n, json!({ "destination": if n == 2 { "gone" } else { "orders" } })).await;
        }

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled), [1, 3, 4].map(id));
        let note = store.letter(id(2)).await.status_note.unwrap();
        assert!(note.contains("known_queue"), "{note}");
    });
}

#[test]
fn a_table_that_the_application_gave_no_defaults_takes_its_rows_back() {
    on_postgres(async |store| {
        let plain = "alter column status drop default, alter column failure_reason drop default,
            alter column is_event drop default";
        store.execute(&format!("alter table wh_outbox {plain}")).await;
        store.insert("wh_outbox", &with(outbox_row(1), json!({ "is_event": true }))).await;
        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        // One that was imported has no source row.
        store.insert("wh_dead_letters", &dead_letter(2)).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled).len(), 2, "{settled:?}");
        for (n, is_event) in [(1, true), (2, false)] {
            let row = store.source_row("wh_outbox", source(n)).await.unwrap();
            assert_eq!(
                [&row["status"], &row["failure_reason"], &row["is_event"]],
                [&json!(1), &json!(99), &json!(is_event)]
            );
        }
    });
}

#[test]
fn rows_that_refer_to_each_other_are_settled_together() {
    on_postgres(async |store| {
        store.insert("wh_outbox", &with(outbox_row(1), json!({ "stream_id": source(2) }))).await;
        store.insert("wh_inbox", &inbox_row(2)).await;
        for (table, n) in [(SourceTable::Outbox, 1), (SourceTable::Inbox, 2)] {
            store.move_to_dead_letters(&moving(table, n)).await.unwrap();
        }
        store
            .execute(
                "alter table wh_outbox add constraint caused_by foreign key (stream_id) references wh_inbox (message_id)
                     deferrable initially deferred",
            )
            .await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(recovered(&settled), [1, 2].map(id));
    });
}
