//! Moving messages out and back.

use uuid::Uuid;

use super::{File, at, dead, json, migrated};
use crate::model::{RecoveryStatus, SourceTable};
use crate::store::{Move, Outcome, Verbs};

const ROW: &str = "select json_array(message_id, destination, message_type, event_data, metadata, scope, stream_id, \
    is_event, status, attempts, error, failure_reason) from wh_outbox";

#[tokio::test]
async fn a_message_comes_back_with_every_column_but_those_of_its_failure() {
    let file = migrated().await;
    file.sql("alter table wh_outbox add column tenant blob; alter table wh_outbox add column doubled integer as (attempts * 2)")
        .await;
    let id = Uuid::now_v7();
    file.outbox(id, r#"{"n": 12345678901234567890.10, "s": "\u0000"}"#).await;
    file.sql("update wh_outbox set tenant = x'00ff', created_at = '2020-01-01T00:00:00.000000Z'").await;
    let dead = file.die(SourceTable::Outbox, id, at(0)).await;
    assert_eq!(file.text("select count(*) from wh_outbox").await.unwrap(), "0");
    let entry = file.entry(dead).await;
    assert_eq!((entry.stream_id, entry.attempts_when_dlq, entry.incarnation), (None, 7, 1));
    assert_eq!(entry.metadata, r#"{"tenant": 1.50}"#);
    assert_eq!(entry.destination.as_deref(), Some("orders"));
    assert_eq!(entry.source_created_at.unwrap().to_string(), "2020-01-01T00:00:00Z");
    assert_eq!(entry.error_fingerprint.map(|text| text.len()), Some(16));

    assert!(file.store.recover_dead_letter(dead, Some(at(5))).await.unwrap());
    assert!(!file.store.recover_dead_letter(dead, Some(at(6))).await.unwrap());
    let row = file.text(ROW).await.unwrap();
    let wanted = format!(
        r#"["{id}","orders","OrderPlaced","{{\"n\": 12345678901234567890.10, \"s\": \"\\u0000\"}}","{{\"tenant\": 1.50}}","{{\"user\":\"ada\"}}",null,1,1,0,null,99]"#
    );
    assert_eq!(row, wanted);
    let rest = "select hex(tenant) || created_at || typeof(tenant) from wh_outbox";
    assert_eq!(file.text(rest).await.unwrap(), "00FF2020-01-01T00:00:00.000000Zblob");
    let entry = file.entry(dead).await;
    assert_eq!((entry.recovery_status, entry.recovery_attempts), (RecoveryStatus::Recovered, 1));
    assert_eq!((entry.recovered_at, entry.last_recovery_at), (Some(at(5)), Some(at(5))));
    assert_eq!(entry.retried_on_generations, [super::GENERATION]);
}

#[tokio::test]
async fn a_move_of_a_row_that_is_gone_leaves_nothing() {
    let file = migrated().await;
    let request = Move {
        dead_letter_id: Uuid::now_v7(),
        source_table: SourceTable::Inbox,
        source_id: Uuid::now_v7(),
        failure_reason: crate::model::FailureReason(0),
        error_text: None,
        instance_id: None,
        generation: "g".to_owned(),
        now: None,
    };
    assert!(file.store.move_to_dead_letters(&request).await.unwrap().is_none());
    assert_eq!(file.text("select count(*) from wh_dead_letters").await.unwrap(), "0");
}

#[tokio::test]
async fn texts_of_any_kind_survive_the_way_there_and_back() {
    let file = migrated().await;
    let bodies = ["cast(x'7bff' as text)", "''", "x'0001ff'", "' {\"a\":1} '", "'a' || char(0) || 'b'"];
    for body in bodies {
        let id = Uuid::now_v7();
        file.sql(&format!(
            "insert into wh_inbox (message_id, handler_name, message_type, event_data, metadata, scope) \
             values ('{}', 'h', 't', {body}, {body}, {body})",
            id.to_string().to_uppercase()
        ))
        .await;
        let dead = file.die(SourceTable::Inbox, id, at(0)).await;
        assert!(file.store.recover_dead_letter(dead, None).await.unwrap());
        let same = format!(
            "select count(*) from wh_inbox where hex(event_data) = hex({body}) and hex(metadata) = hex({body}) and \
             hex(scope) = hex({body}) and typeof(scope) = typeof({body}) and handler_name = 'h' \
             and message_id = upper('{id}')"
        );
        assert_eq!(file.text(&same).await.unwrap(), "1", "{body}");
    }
}

#[tokio::test]
async fn an_error_text_of_any_length_is_kept_or_cut_with_a_mark() {
    let file = migrated().await;
    let id = Uuid::now_v7();
    file.outbox(id, "{}").await;
    let request = Move {
        dead_letter_id: id,
        source_table: SourceTable::Outbox,
        source_id: id,
        failure_reason: crate::model::FailureReason(99),
        error_text: Some(format!("a\0{}", "\u{1F600}".repeat(300_000))),
        instance_id: None,
        generation: "g".to_owned(),
        now: None,
    };
    assert!(file.store.move_to_dead_letters(&request).await.unwrap().is_some());
    let kept = file.entry(id).await.error_text.unwrap();
    assert!(kept.len() <= 64 * 1024 && kept.starts_with('a') && !kept.contains('\0') && kept.ends_with(']'));
}

async fn perspective_row(file: &File, id: Uuid) {
    file.sql(&format!(
        "insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata) \
         values ('{id}', '{id}', 42, 't', '{{}}', '{{}}'); \
         insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, failure_reason) \
         values ('{id}', '{id}', 'Totals', '{id}', 3)"
    ))
    .await;
}

#[tokio::test]
async fn a_perspective_row_knows_its_position_and_is_held_when_its_event_is_gone() {
    let file = migrated().await;
    let (kept, gone) = (Uuid::now_v7(), Uuid::now_v7());
    perspective_row(&file, kept).await;
    perspective_row(&file, gone).await;
    let kept_dead = file.die(SourceTable::PerspectiveEvents, kept, at(0)).await;
    let gone_dead = file.die(SourceTable::PerspectiveEvents, gone, at(0)).await;
    let entry = file.entry(kept_dead).await;
    assert_eq!((entry.source_position, entry.stream_id), (Some(42), Some(kept)));
    assert_eq!((entry.message_type.as_str(), entry.perspective_name.as_deref()), ("perspective_event", Some("Totals")));
    file.sql(&format!("delete from wh_event_store where event_id = '{gone}'")).await;
    assert!(file.store.recover_dead_letter(kept_dead, None).await.unwrap());
    assert!(!file.store.recover_dead_letter(gone_dead, None).await.unwrap());
    let row =
        "select event_id || perspective_name || status || coalesce(failure_reason, '-') from wh_perspective_events";
    assert_eq!(file.text(row).await.unwrap(), format!("{kept}Totals0-"));
    let entry = file.entry(gone_dead).await;
    assert_eq!((entry.recovery_status, entry.recovery_attempts), (RecoveryStatus::HoldForReview, 1));
    assert!(entry.status_note.unwrap().contains("wh_event_store"));
}

#[tokio::test]
async fn a_message_that_dies_again_spends_the_same_budget() {
    let file = migrated().await;
    let id = Uuid::now_v7();
    file.outbox(id, "{}").await;
    let first = file.die(SourceTable::Outbox, id, at(0)).await;
    assert!(file.store.recover_dead_letter(first, Some(at(10))).await.unwrap());
    let second = file.die(SourceTable::Outbox, id, at(20)).await;
    let entry = file.entry(second).await;
    assert_eq!((entry.incarnation, entry.recovery_attempts), (2, 1));
    assert_eq!(entry.last_recovery_at, Some(at(10)));
    assert_eq!(entry.retried_on_generations, [super::GENERATION]);

    let mut other = dead(30);
    other.source_id = id;
    other.generation = "shop-2.0".to_owned();
    file.import(std::slice::from_ref(&other)).await;
    let entry = file.entry(other.dead_letter_id).await;
    assert_eq!((entry.incarnation, entry.recovery_attempts, entry.last_recovery_at), (3, 0, None));
    assert!(!file.store.recover_dead_letter(second, None).await.unwrap());
    let entry = file.entry(second).await;
    assert_eq!((entry.recovery_status, entry.recovery_attempts), (RecoveryStatus::HoldForReview, 1));
    assert_eq!(entry.status_note.unwrap(), format!("superseded by {}", other.dead_letter_id));
}

#[tokio::test]
async fn a_dead_letter_without_its_source_row_is_rebuilt_from_what_it_says() {
    let file = migrated().await;
    let mut letter = dead(0);
    letter.source_table = SourceTable::Inbox;
    letter.stream_id = Some(Uuid::nil());
    letter.envelope = json(r#"{"event_data":{"b":1.10}}"#);
    letter.metadata = json(r#"{"tenant":7}"#);
    file.import(std::slice::from_ref(&letter)).await;
    assert!(file.store.recover_dead_letter(letter.dead_letter_id, None).await.unwrap());
    let row = "select handler_name || message_type || event_data || metadata || coalesce(stream_id, '-') || received_at \
        from wh_inbox";
    assert_eq!(
        file.text(row).await.unwrap(),
        r#"recoveredOrderPlaced{"b":1.10}{"tenant":7}-2026-01-01T00:00:00.000000Z"#
    );
}

#[tokio::test]
async fn only_the_rows_whose_message_is_there_already_are_held() {
    let file = migrated().await;
    let letters: Vec<_> = (0..10).map(dead).collect();
    file.import(&letters).await;
    for letter in letters.iter().take(3) {
        file.outbox(letter.source_id, "{}").await;
    }
    let (batch, entries) = file.begin_all(at(100)).await;
    let outcomes = file.settle(batch, &entries, at(101)).await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::SourcePresent).count(), 3);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Recovered).count(), 7);
    let held = file.entry(letters[0].dead_letter_id).await;
    assert_eq!((held.recovery_status, held.recovery_attempts), (RecoveryStatus::HoldForReview, 1));
    assert!(held.status_note.unwrap().contains("wh_outbox"));
    assert_eq!(file.text("select count(*) from wh_outbox").await.unwrap(), "10");
    assert_eq!(file.text("select count(*) from wh_dead_letters").await.unwrap(), "10");
}
