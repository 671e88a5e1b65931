//! One corrupt row keeps no other from being read and recovered.

use reprieve::model::RecoveryStatus;
use reprieve::store::{Filter, Outcome, Page, Row};
use serde_json::{Value, json};

use crate::harness::{Backend, at, attempt, begin, claim, dead_letter, id, settle};

/// What an application's hand can leave in a row, with the CHECKs left out.
fn corruptions(postgres: bool) -> &'static [&'static str] {
    if postgres {
        &[
            "source_table = 'elsewhere'",
            "recovery_status = 1, operator_disposition = 77",
            "dead_lettered_at = '-infinity'",
            "last_recovery_at = 'infinity'",
        ]
    } else {
        &[
            "source_table = 'elsewhere'",
            "operator_disposition = 77",
            "dead_lettered_at = '0 o''clock'",
            "last_recovery_at = 'yesterday'",
            "source_id = 'not an id'",
            "stream_id = 'x'",
            "retried_on_generations = 'g1'",
            "recovery_attempts = 'many'",
            "generation = x'ff00'",
        ]
    }
}

async fn corrupt(store: &Backend, change: &str) {
    let update = format!("update wh_dead_letters set {change} where dead_letter_id = '{}'", id(2));
    if store.is_postgres() {
        store.execute(
            "do $$ declare name text; begin
               for name in select conname from pg_constraint where conrelid = 'wh_dead_letters'::regclass and contype = 'c'
               loop execute format('alter table wh_dead_letters drop constraint %I', name); end loop; end $$",
        ).await;
        store.execute(&update).await;
    } else {
        store
            .execute(&format!("pragma ignore_check_constraints = 1; {update}; pragma ignore_check_constraints = 0"))
            .await;
    }
}

fn split(rows: &[Row]) -> (Vec<uuid::Uuid>, Vec<&str>) {
    let mut readable = Vec::new();
    let mut unreadable = Vec::new();
    for row in rows {
        match row {
            Row::Readable(letter) => readable.push(letter.dead_letter_id),
            Row::Unreadable { dead_letter_id, problem } => {
                assert!(!problem.is_empty());
                unreadable.push(dead_letter_id.as_str());
            }
        }
    }
    readable.sort();
    (readable, unreadable)
}

on_both_stores! {
    async fn everything_else_lists_scans_and_recovers(store: Backend) {
        let bad = id(2).to_string();
        for change in corruptions(store.is_postgres()) {
            store.execute("delete from wh_dead_letters").await;
            store.execute("delete from wh_outbox").await;
            for n in 1..=3 {
                store.insert("wh_dead_letters", &dead_letter(n)).await;
            }
            corrupt(&store, change).await;

            let listed = store.list(&Filter::default(), &Page { limit: 10, after: None }).await.unwrap();
            assert_eq!(split(&listed), (vec![id(1), id(3)], vec![bad.as_str()]), "list with {change}");
            let shown = store.show(id(2)).await.unwrap().expect("a corrupt row is shown");
            assert!(matches!(shown.row, Row::Unreadable { .. }), "show with {change}");
            let due = store.fetch_dead_letters_due(Some(at(100)), 10).await.unwrap();
            assert_eq!(split(&due).0, [id(1), id(3)], "fetch with {change}");
            store.stats(Some(at(100))).await.unwrap_or_else(|error| panic!("stats with {change}: {error}"));

            let claimed = claim(&*store, 10, at(100)).await;
            assert_eq!(claimed.ids(), [id(1), id(3)], "claim with {change}");
            begin(&*store, claimed.batch_id, &claimed.ids(), &[], at(100)).await;
            let attempts: Vec<_> = claimed
                .entries()
                .iter()
                .map(|entry| attempt(entry, crate::harness::batches::waiting(at(100), 60)))
                .collect();
            let settled = settle(&*store, claimed.batch_id, &attempts, at(100)).await;
            assert!(settled.iter().all(|row| row.outcome == Outcome::Recovered), "settle with {change}: {settled:?}");
        }
    }

    async fn a_claim_holds_what_it_cannot_read_with_a_note(store: Backend) {
        for n in 1..=3 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        corrupt(&store, "source_table = 'elsewhere'").await;

        let claimed = claim(&*store, 10, at(100)).await;

        let told: Vec<&str> = claimed.claim.unreadable.iter().map(|(unreadable, _)| unreadable.as_str()).collect();
        assert_eq!(told, [id(2).to_string()]);
        let raw = store.raw_letter(id(2)).await;
        assert_eq!(raw["recovery_status"], json!(RecoveryStatus::HoldForReview.number()));
        assert_ne!(raw["status_note"], Value::Null);
        store.release(claimed.batch_id).await.unwrap();
        assert!(claim(&*store, 10, at(101)).await.claim.unreadable.is_empty(), "it is told once");
    }

    async fn corrupt_rows_alone_do_not_stop_a_pass(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        corrupt(&store, "source_table = 'elsewhere'").await;

        assert!(claim(&*store, 1, at(100)).await.ids().is_empty());

        store.insert("wh_dead_letters", &dead_letter(3)).await;
        assert_eq!(claim(&*store, 1, at(100)).await.ids(), [id(3)]);
    }

    async fn one_that_can_be_neither_read_nor_held_costs_the_others_nothing_and_is_told(store: Backend) {
        for n in 1..=3 {
            store.insert("wh_dead_letters", &dead_letter(n)).await;
        }
        corrupt(&store, "source_table = 'elsewhere'").await;
        store.refuse_changes_of(id(2)).await;
        let host = crate::recovery::host::host(&store).await;
        let host = reprieve::recovery::Scanner { now: Some(at(100)), ..host };

        let told = host.until_idle().await.unwrap_err().to_string();

        assert_eq!(store.rows_in("wh_outbox").await, 2);
        assert!(told.contains(&format!("dead letter {} can be neither read nor held: ", id(2))), "{told}");
        assert!(told.contains("never"), "{told}");
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0);
    }

    async fn a_row_with_null_wherever_null_is_allowed_is_a_row(store: Backend) {
        let empty = json!({
            "stream_id": null, "destination": null, "perspective_name": null, "error_text": null,
            "dead_lettered_by": null, "last_recovery_at": null, "next_recovery_at": null, "recovered_at": null,
            "operator_notes": null, "operator_actor": null, "error_fingerprint": null,
            "error_fingerprint_version": null, "source_row": null, "source_created_at": null, "source_position": null,
            "replay_credit": null, "replay_credit_at": null, "deferral": null, "policy_error_digest": null,
            "status_note": null,
        });
        store.dead(1, empty).await;

        assert_eq!(store.list(&Filter::default(), &Page { limit: 10, after: None }).await.unwrap().len(), 1);
        assert_eq!(store.letter(id(1)).await.stream_id, None);
        assert_eq!(crate::harness::recover_all(&*store, at(100)).await[0].outcome, Outcome::Recovered);
    }

    async fn a_deferral_of_another_version_reads_as_none(store: Backend) {
        store.dead(1, json!({"deferral": "moon-phase"})).await;

        assert_eq!(store.letter(id(1)).await.deferral, None);
        assert_eq!(claim(&*store, 10, at(100)).await.ids(), [id(1)]);
    }
}
