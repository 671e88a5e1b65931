#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::collections::HashSet;
use std::io::{BufReader, Cursor, Read};

use super::*;
use crate::model::{FailureReason, SourceTable};

const GOOD: &str = r#"{"source_table":"wh_inbox","message_type":"M","failure_reason":"Throttled"}"#;

fn defaults() -> Defaults<'static> {
    Defaults { generation: "g1", now: "2026-01-01T00:00:00Z".parse().unwrap() }
}

fn rows(input: &[u8]) -> Vec<NewDeadLetter> {
    read(BufReader::with_capacity(7, Cursor::new(input)), &defaults()).unwrap().rows
}

fn refused(input: impl Read) -> String {
    read(BufReader::new(input), &defaults()).unwrap_err().to_string()
}

#[test]
fn what_a_line_leaves_open_is_filled_in() {
    let row = rows(GOOD.as_bytes()).remove(0);
    assert_eq!(row.source_table, SourceTable::Inbox);
    assert_eq!(row.envelope.get(), r#"{"event_data": {}, "metadata": {}}"#);
    assert_eq!((row.metadata.get(), row.generation.as_str(), row.attempts_when_dlq), ("{}", "g1", 0));
    assert_eq!((row.dead_letter_id.get_version_num(), row.source_id.get_version_num()), (7, 7));
    assert_eq!((row.dead_lettered_at, row.source_created_at, row.recovery_status), (None, None, None));
}

#[test]
fn new_ids_have_the_time_of_the_import_and_ascend_with_the_lines() {
    let rows = rows(format!("{GOOD}\n").repeat(1000).as_bytes());
    let ascend = |ids: Vec<Uuid>| ids.is_sorted_by(|one, next| one < next);
    assert!(ascend(rows.iter().map(|row| row.source_id).collect()));
    assert!(ascend(rows.iter().map(|row| row.dead_letter_id).collect()));
    for id in rows.iter().flat_map(|row| [row.source_id, row.dead_letter_id]) {
        let (seconds, nanoseconds) = id.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds.cast_signed(), nanoseconds), (defaults().now.as_second(), 0));
    }
}

#[test]
fn the_source_is_as_old_as_the_death_unless_the_line_says_otherwise() {
    let line = r#"{"source_table":"wh_inbox","message_type":"M","failure_reason":8,"dead_lettered_at":"2026-01-01T00:00:00Z"}"#;
    let row = rows(line.as_bytes()).remove(0);
    assert_eq!(row.source_created_at, row.dead_lettered_at);
}

#[test]
fn blank_lines_line_ends_and_a_byte_order_mark_are_accepted() {
    assert_eq!(rows(format!("\u{feff}{GOOD}\r\n\r\n  \t\n{GOOD}\n\n{GOOD}").as_bytes()).len(), 3);
    assert_eq!(rows(b"").len(), 0);
    assert_eq!(rows("\u{feff}".as_bytes()).len(), 0);
}

#[test]
fn a_dead_letter_is_found_on_its_line() {
    let input = format!("\n{GOOD}\n\n{GOOD}\n");
    let letters = read(Cursor::new(input), &defaults()).unwrap();
    assert_eq!(letters.line_of(letters.rows[0].dead_letter_id), Some(2));
    assert_eq!(letters.line_of(letters.rows[1].dead_letter_id), Some(4));
    assert_eq!(letters.line_of(Uuid::nil()), None);
}

#[test]
fn bad_lines_are_told_by_number_and_refuse_the_file() {
    let message = refused(Cursor::new(format!("{GOOD}\n\n{{\"a\n{GOOD}\n{{}}\n")));
    let mut lines = message.lines();
    assert_eq!(lines.next(), Some("nothing was imported: 2 lines are bad"));
    assert!(lines.next().unwrap().starts_with("  line 3: broken JSON"));
    assert_eq!(lines.next(), Some("  line 5: source_table is required"));
}

#[test]
fn ten_bad_lines_are_told_and_the_rest_counted() {
    let message = refused(Cursor::new("{}\n".repeat(13)));
    assert!(message.starts_with("nothing was imported: 13 lines are bad\n  line 1: "), "{message}");
    assert!(message.ends_with("\n  line 10: source_table is required\n  and 3 more"), "{message}");
}

#[test]
fn an_id_may_stand_in_a_file_once() {
    let id = "01900000-0000-7000-8000-000000000001";
    let line = GOOD.replacen('{', &format!("{{\"dead_letter_id\":\"{id}\","), 1);
    let message = refused(Cursor::new(format!("{line}\n{GOOD}\n{line}")));
    assert!(message.ends_with(&format!("\n  line 3: dead_letter_id {id} is on line 1 already")), "{message}");
}

#[test]
fn a_line_of_20_mb_is_told_with_its_size_and_the_next_one_is_read() {
    let input = std::io::repeat(b'x').take(20_000_000).chain(Cursor::new("\n{}"));
    let message = refused(input);
    assert_eq!(
        message,
        "nothing was imported: 2 lines are bad\n  line 1: the line has 20000000 bytes, at most 16777216 (16 MiB) are read\n  line 2: source_table is required"
    );
}

#[test]
fn a_line_of_exactly_the_limit_is_read() {
    let padding = MAX_LINE - GOOD.len();
    assert_eq!(rows(format!("{GOOD}{}\n{GOOD}", " ".repeat(padding)).as_bytes()).len(), 2);
    assert!(refused(Cursor::new(format!("{GOOD}{}", " ".repeat(padding + 1)))).contains("16777217 bytes"));
}

#[test]
fn bytes_that_are_no_utf8_are_told() {
    let message = refused(Cursor::new(b"{\"a\": \"\xff\"}\n"));
    assert!(message.ends_with("line 1: no UTF-8 at byte 8: {\"a\": \"\u{fffd}\"}"), "{message}");
}

#[test]
fn an_input_that_breaks_off_is_told_with_the_last_line() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    let message = refused(Cursor::new(format!("{GOOD}\n")).chain(Broken));
    assert_eq!(message, "reading stopped after line 1: gone");
}

#[test]
fn the_example_file_can_be_imported_and_shows_every_kind() {
    let rows = rows(include_bytes!("../../../../examples/dead-letters.jsonl"));
    assert!(rows.len() >= 100);
    for reason in FailureReason::named() {
        assert!(rows.iter().any(|row| row.failure_reason == reason), "{reason}");
    }
    assert!(rows.iter().any(|row| row.failure_reason.name().is_none()));
    for table in SourceTable::ALL {
        assert!(rows.iter().any(|row| row.source_table == *table), "{table}");
    }
    for part in ["   at Shop.", "\tat com.shop.", "Traceback (most recent", "goroutine ", "node:internal/"] {
        assert!(rows.iter().any(|row| row.error_text.as_deref().is_some_and(|text| text.contains(part))), "{part}");
    }
    assert!(rows.iter().any(|row| row.envelope.get().len() > 100_000));
    assert!(rows.iter().any(|row| row.envelope.get().contains("\"event_data\":{}")));
    for text in ["ß", "佐藤", "ليلى", "🎉"] {
        assert!(rows.iter().any(|row| row.envelope.get().contains(text)), "{text}");
    }
    let generations: HashSet<_> = rows.iter().map(|row| row.generation.as_str()).collect();
    assert!(generations.len() >= 3);
}
