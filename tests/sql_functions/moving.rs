//! `move_to_dead_letters`.

use super::{column, database, move_call, outbox_message};
use crate::harness::{id, source};

#[test]
fn a_move_answers_with_the_id_and_the_second_call_with_null() {
    let database = database();
    database.run(&outbox_message(1));

    assert_eq!(database.run(&move_call(1, "g1")), id(1).to_string());
    assert_eq!(database.run("select count(*) from wh_outbox"), "0");
    let again = move_call(1, "g1").replace("select move", "select coalesce(move").replace(");", ")::text, 'null');");
    assert_eq!(database.run(&again), "null");
    assert_eq!(database.run("select count(*) from wh_dead_letters"), "1");
}

#[test]
fn the_row_is_kept_whole() {
    let database = database();
    database.run("alter table wh_outbox add column tenant text default 'acme', add column tags text[] default '{a,b}'");
    database.run(&outbox_message(1));
    database.run(&move_call(1, "g1"));

    let expected = [
        ("source_table", "wh_outbox"),
        ("destination", "orders"),
        ("message_type", "OrderPlaced"),
        ("envelope->'event_data'->>'order'", "1"),
        ("envelope->'metadata'->>'tenant'", "acme"),
        ("metadata->>'tenant'", "acme"),
        ("failure_reason", "8"),
        ("error_text", "System.TimeoutException: late"),
        ("attempts_when_dlq", "4"),
        ("generation", "g1"),
        ("recovery_status", "0"),
        ("incarnation", "1"),
        ("source_row->>'tenant'", "acme"),
        ("source_row->'tags'->>1", "b"),
        ("source_row->>'envelope_type'", "Envelope/1"),
        ("source_row ? 'event_data'", "f"),
        ("source_created_at = '2025-12-31T23:00:00.123456Z'", "t"),
        ("dead_lettered_at between now() - interval '1 minute' and now()", "t"),
        ("error_fingerprint ~ '^[0-9a-f]{16}$'", "t"),
        ("error_fingerprint_version", "1"),
    ];
    for (expression, value) in expected {
        assert_eq!(column(&database, 1, expression), value, "{expression}");
    }
}

#[test]
fn inbox_and_perspective_rows_move_too() {
    let database = database();
    database.run(&format!(
        "insert into wh_inbox (message_id, handler_name, message_type, event_data, metadata)
         values ('{}', 'h', 'T', '[]', '{{}}');
         insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata, created_at)
         values ('{}', '{}', 42, 'E', '{{}}', '{{}}', now());
         insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
         values ('{}', '{}', 'totals', '{}');",
        source(1),
        id(500),
        id(600),
        source(2),
        id(600),
        id(500)
    ));

    database.run(&format!(
        "select move_to_dead_letters('{}', 'wh_inbox', '{}', 4, null, null, 'g1')",
        id(1),
        source(1)
    ));
    database.run(&format!(
        "select move_to_dead_letters('{}', 'wh_perspective_events', '{}', 5, '', null, 'g1')",
        id(2),
        source(2)
    ));

    assert_eq!(column(&database, 1, "source_row->>'handler_name'"), "h");
    assert_eq!(column(&database, 1, "coalesce(error_text, 'none') || coalesce(error_fingerprint, 'none')"), "nonenone");
    assert_eq!(
        column(&database, 2, "message_type || ' ' || perspective_name || ' ' || source_position"),
        "perspective_event totals 42"
    );
    assert_eq!(column(&database, 2, "envelope->>'event_id'"), id(500).to_string());
    assert_eq!(column(&database, 2, "error_text = '' and error_fingerprint is not null"), "t");
}

#[test]
fn an_unknown_table_is_an_error_and_no_sql() {
    let database = database();
    database.run(&outbox_message(1));
    for table in ["wh_event_store", "WH_OUTBOX", "wh_outbox; drop table wh_outbox", "", "pg_class"] {
        let call = format!("select move_to_dead_letters('{}', '{table}', '{}', 8, null, null, 'g1')", id(1), source(1));
        let error = database.refuses(&call);
        assert!(error.contains("22023"), "{error}");
        assert!(error.contains("wh_outbox"), "the message says what is expected: {error}");
    }
    assert_eq!(database.run("select count(*) from wh_outbox"), "1");
}

#[test]
fn a_text_of_a_megabyte_and_odd_ones_are_stored() {
    let database = database();
    for (n, text) in [(1, "repeat('é', 1024 * 1024)"), (2, "''"), (3, "E'a\\x01\\x1b[31mb\\\\'''"), (4, "chr(128666)")]
    {
        database.run(&outbox_message(n));
        let call = move_call(n, "g1").replace("'System.TimeoutException: late'", text);
        assert_eq!(database.run(&call), id(n).to_string(), "{text}");
    }
    assert_eq!(column(&database, 1, "octet_length(error_text) between 65000 and 65536"), "t");
    assert_eq!(column(&database, 4, "error_text = chr(128666)"), "t");
}

#[test]
fn columns_of_type_json_with_nul_escapes_do_not_stop_a_move() {
    let database = database();
    database.run("alter table wh_outbox add column note json");
    database.run(&outbox_message(1));
    database.run(r#"update wh_outbox set note = '{"a": "x\u0000y"}'"#);

    assert_eq!(database.run(&move_call(1, "g1")), id(1).to_string());
    assert_eq!(database.run(&format!("select recover_dead_letter('{}')", id(1))), "t");
    assert_eq!(database.run("select note is not null from wh_outbox"), "t");
}

#[test]
fn a_body_column_that_the_application_made_json_is_moved_and_restored() {
    let database = database();
    database.run("alter table wh_outbox alter column event_data type json using event_data::json");
    database.run(&outbox_message(1));
    database.run(r#"update wh_outbox set event_data = '{"a": "x\u0000y", "n": 1.50}'"#);

    assert_eq!(database.run(&move_call(1, "g1")), id(1).to_string());
    assert_eq!(database.run(&format!("select recover_dead_letter('{}')", id(1))), "t");
    assert_eq!(database.run("select event_data->>'n' from wh_outbox"), "1.50");
}
