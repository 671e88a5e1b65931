//! Bringing dead letters in.

use jiff::{SignedDuration, Timestamp};
use reprieve::model::{Deferral, Disposition, FailureReason, RecoveryStatus, SourceTable};
use reprieve::store::{Import, Imported, NewDeadLetter};
use serde_json::{Value, json};

use crate::harness::rows::{import_line, raw_json};
use crate::harness::{Backend, at, dead_letter, id, instance, recover_all, source, stream};

async fn import(store: &Backend, rows: &[NewDeadLetter]) -> Imported {
    store.import(&Import { rows, now: Some(at(500)) }).await.unwrap()
}

on_both_stores! {
    async fn a_line_with_only_what_it_must_have_takes_the_defaults(store: Backend) {
        let mut line = import_line(1);
        line.dead_lettered_at = None;
        line.error_text = Some("boom".to_owned());

        let imported = import(&store, &[line]).await;

        assert_eq!(imported, Imported { imported: 1, skipped: vec![] });
        let letter = store.letter(id(1)).await;
        assert_eq!((letter.dead_lettered_at, letter.recovery_status), (at(500), RecoveryStatus::Pending));
        assert_eq!((letter.recovery_attempts, letter.incarnation, letter.policy_errors), (0, 1, 0));
        assert_eq!((letter.next_recovery_at, letter.last_recovery_at, letter.recovered_at), (None, None, None));
        assert_eq!(letter.operator_disposition, Disposition::None);
        assert!(letter.retried_on_generations.is_empty());
        assert_eq!(letter.source_created_at, Some(at(500)), "source_created_at defaults to dead_lettered_at");
        assert_eq!(letter.error_fingerprint.map(|digits| digits.len()), Some(16));
    }

    async fn every_column_that_is_given_is_kept(store: Backend) {
        let mut line = import_line(1);
        line.source_table = SourceTable::PerspectiveEvents;
        line.stream_id = Some(stream(3));
        line.perspective_name = Some("totals".to_owned());
        line.destination = None;
        line.envelope = raw_json(r#"{"event_id": "0190a000-0000-7000-b800-000000000001", "perspective_name": "totals"}"#);
        line.metadata = raw_json(r#"{"n": 12345678901234567890123, "t": "ä"}"#);
        line.failure_reason = FailureReason(321);
        line.error_text = Some("boom 🚚".to_owned());
        line.attempts_when_dlq = 9;
        line.dead_lettered_by = Some(instance(4));
        line.recovery_status = Some(RecoveryStatus::HoldForReview);
        line.recovery_attempts = Some(4);
        line.last_recovery_at = Some(at(11));
        line.next_recovery_at = Some(at(12));
        line.retried_on_generations = Some(vec!["g0".to_owned(), "x,\"y\"".to_owned()]);
        line.operator_disposition = Some(Disposition::HoldIndefinitely);
        line.operator_notes = Some("seen".to_owned());
        line.operator_actor = Some("kim".to_owned());
        line.error_fingerprint = Some("0123456789abcdef".to_owned());
        line.error_fingerprint_version = Some(1);
        line.source_row = Some(raw_json(r#"{"tenant": "acme"}"#));
        line.source_created_at = Some(at(-9));
        line.source_position = Some(77);
        line.incarnation = Some(6);
        line.replay_credit = Some("*".to_owned());
        line.replay_credit_at = Some(at(13));
        line.deferral = Some("skip".to_owned());
        line.policy_errors = Some(2);
        line.policy_error_digest = Some("abc".to_owned());
        line.status_note = Some("why".to_owned());

        import(&store, &[line]).await;

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.source_table, letter.stream_id), (SourceTable::PerspectiveEvents, Some(stream(3))));
        assert_eq!(letter.failure_reason, FailureReason(321));
        assert!(letter.metadata.contains("12345678901234567890123"), "{}", letter.metadata);
        assert_eq!((letter.error_text.as_deref(), letter.attempts_when_dlq), (Some("boom 🚚"), 9));
        assert_eq!((letter.dead_lettered_at, letter.dead_lettered_by), (at(1), Some(instance(4))));
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::HoldForReview, 4));
        assert_eq!((letter.last_recovery_at, letter.next_recovery_at), (Some(at(11)), Some(at(12))));
        assert_eq!(letter.retried_on_generations, ["g0", "x,\"y\""]);
        assert_eq!(letter.operator_disposition, Disposition::HoldIndefinitely);
        assert_eq!((letter.operator_notes.as_deref(), letter.operator_actor.as_deref()), (Some("seen"), Some("kim")));
        assert_eq!(letter.error_fingerprint.as_deref(), Some("0123456789abcdef"));
        assert_eq!((letter.source_created_at, letter.source_position, letter.incarnation), (Some(at(-9)), Some(77), 6));
        assert_eq!((letter.replay_credit.as_deref(), letter.replay_credit_at), (Some("*"), Some(at(13))));
        assert_eq!((letter.deferral, letter.policy_errors), (Some(Deferral::Skip), 2));
        assert_eq!((letter.policy_error_digest.as_deref(), letter.status_note.as_deref()), (Some("abc"), Some("why")));
        assert_eq!(store.raw_letter(id(1)).await["source_row"], json!({"tenant": "acme"}));
    }

    async fn a_recovered_row_is_imported_as_such(store: Backend) {
        let mut line = import_line(1);
        (line.recovery_status, line.recovered_at) = (Some(RecoveryStatus::Recovered), Some(at(20)));

        import(&store, &[line]).await;

        assert_eq!(store.letter(id(1)).await.recovered_at, Some(at(20)));
    }

    async fn ids_in_the_store_already_are_skipped_and_told(store: Backend) {
        store.insert("wh_dead_letters", &dead_letter(2)).await;
        let before = store.raw_letter(id(2)).await;
        let rows = [import_line(1), import_line(2), import_line(3)];

        assert_eq!(import(&store, &rows).await, Imported { imported: 2, skipped: vec![id(2)] });
        let again = import(&store, &rows).await;

        assert_eq!((again.imported, again.skipped.len()), (0, 3));
        assert_eq!(store.raw_letter(id(2)).await, before);
        assert_eq!(store.rows_in("wh_dead_letters").await, 3);
    }

    async fn one_bad_row_keeps_all_of_them_out(store: Backend) {
        let mut bad = import_line(2);
        bad.recovery_attempts = Some(-1);
        let rows = [import_line(1), bad, import_line(3)];

        assert!(store.import(&Import { rows: &rows, now: Some(at(500)) }).await.is_err());

        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    }

    async fn deaths_of_one_message_in_one_import_are_linked_in_the_order_of_dying(store: Backend) {
        let mut rows = [import_line(3), import_line(1), import_line(2)];
        for row in &mut rows {
            row.source_id = source(1);
        }

        import(&store, &rows).await;

        let mut incarnations = Vec::new();
        for n in 1..=3 {
            incarnations.push(store.letter(id(n)).await.incarnation);
        }
        assert_eq!(incarnations, [1, 2, 3]);
    }

    async fn a_death_without_a_time_is_older_than_one_that_lies_ahead(store: Backend) {
        let in_an_hour = Timestamp::now() + SignedDuration::from_hours(1);
        for (n, now, ahead) in [(1, Some(at(500)), at(600)), (3, None, in_an_hour)] {
            let mut rows = [import_line(n), import_line(n + 1)];
            rows[0].dead_lettered_at = Some(ahead);
            (rows[1].dead_lettered_at, rows[1].source_id) = (None, rows[0].source_id);

            store.import(&Import { rows: &rows, now }).await.unwrap();

            let (dated, undated) = (store.letter(id(n)).await, store.letter(id(n + 1)).await);
            assert!(undated.dead_lettered_at < dated.dead_lettered_at);
            assert_eq!((undated.incarnation, dated.incarnation), (1, 2), "{now:?}");
        }
    }

    async fn an_envelope_keeps_its_numbers_and_is_re_emitted(store: Backend) {
        let mut line = import_line(1);
        let envelope = r#"{"event_data": {"n": 123456789012345678901234567890, "d": 0.10}, "metadata": {"k": 1}}"#;
        line.envelope = raw_json(envelope);

        import(&store, &[line]).await;
        recover_all(&*store, at(600)).await;

        let cast = if store.is_postgres() { "event_data::text" } else { "event_data" };
        let body = store.value(&format!("select {cast} as body from wh_outbox")).await;
        let body = body.as_str().unwrap();
        assert!(body.contains("123456789012345678901234567890") && body.contains("0.10"), "{body}");
    }

    async fn a_nul_escape_in_a_body_is_stored_or_visibly_replaced(store: Backend) {
        let mut line = import_line(1);
        line.envelope = raw_json(r#"{"event_data": {"text": "a\u0000b", "path": "C:\\u0000"}, "metadata": {}}"#);
        line.metadata = raw_json(r#"{"text": "a\u0000b"}"#);

        assert_eq!(import(&store, &[line]).await.imported, 1);

        let raw = store.raw_letter(id(1)).await;
        let data = &raw["envelope"]["event_data"];
        let text = data["text"].as_str().unwrap();
        assert!(text.starts_with('a') && text.ends_with('b') && text.len() > 2, "nothing is dropped silently: {text:?}");
        assert_eq!(data["path"], "C:\\u0000", "an escaped backslash is no escape");
    }

    async fn a_thousand_rows_come_in_at_once(store: Backend) {
        let rows: Vec<NewDeadLetter> = (1..=5000).map(import_line).collect();

        assert_eq!(import(&store, &rows).await.imported, 5000);

        assert_eq!(store.rows_in("wh_dead_letters").await, 5000);
    }

    async fn nothing_to_import_is_no_error(store: Backend) {
        assert_eq!(import(&store, &[]).await, Imported::default());
    }

    async fn a_nul_in_a_text_does_not_make_an_import_fail(store: Backend) {
        let mut line = import_line(1);
        line.error_text = Some("a\0b".to_owned());

        assert_eq!(import(&store, &[line]).await.imported, 1);

        assert_ne!(store.raw_letter(id(1)).await["error_text"], Value::Null);
    }

    async fn half_a_surrogate_pair_in_a_body_is_no_error(store: Backend) {
        let mut line = import_line(1);
        line.envelope = raw_json(r#"{"event_data": {"text": "a\ud800b", "k\udc00": 1}, "metadata": {}}"#);
        line.metadata = raw_json(r#"{"text": "a\udfffb"}"#);
        line.source_row = Some(raw_json(r#"{"message_type": "OrderPlaced", "scope": {"text": "\ud83d"}}"#));

        assert_eq!(import(&store, &[line]).await.imported, 1);
        recover_all(&*store, at(600)).await;

        assert_eq!(store.rows_in("wh_outbox").await, 1);
    }

    async fn a_body_of_ten_thousand_levels_comes_back(store: Backend) {
        let mut line = import_line(1);
        let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
        line.envelope = raw_json(&format!(r#"{{"event_data": {open}{close}, "metadata": {{}}}}"#));

        import(&store, &[line]).await;
        recover_all(&*store, at(600)).await;

        let cast = if store.is_postgres() { "event_data::text" } else { "event_data" };
        assert_eq!(store.value(&format!("select {cast} as body from wh_outbox")).await, json!(format!("{open}{close}")));
    }

    async fn a_row_that_the_database_does_not_take_is_named(store: Backend) {
        let mut rows = [import_line(1), import_line(2), import_line(3)];
        rows[1].incarnation = Some(-1);
        rows[1].recovery_attempts = Some(-1);

        let error = store.import(&Import { rows: &rows, now: Some(at(500)) }).await.unwrap_err();

        assert!(error.to_string().contains(&id(2).to_string()), "{error}");
        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    }
}
