//! `move`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::shop::{Kind, LATER, Shop, id, letter};
use crate::harness::Program;

/// A shop with a row in its outbox, and the options that name the row.
fn with_a_row(kind: Kind) -> (Shop, [String; 5]) {
    // A recovered dead letter leaves a row in its source table.
    let shop = kind.shop_with(&[letter(1, json!({}))]);
    shop.run(&["scan", "--now", LATER]).exits(0);
    let source = shop.show(&id(1))["source_id"].as_str().unwrap().to_owned();
    (shop, ["move", "--source-table", "wh_outbox", "--source-id", &source].map(str::to_owned))
}

in_both_shops! {
    fn the_id_has_the_time_that_stands_in_for_the_clock(kind: Kind) {
        let (shop, row) = with_a_row(kind);
        let row = row.each_ref().map(String::as_str);
        let now = "2031-02-03T04:05:06.789Z";
        let arguments = [&row[..], &["--reason", "Throttled", "--now", now, "--json"]].concat();
        let moved = shop.run(&arguments).exits(0).json();
        let moved: Uuid = moved.as_str().unwrap().parse().unwrap();
        assert_eq!(moved.get_version_num(), 7);
        let (seconds, nanoseconds) = moved.get_timestamp().unwrap().to_unix();
        let time = Timestamp::new(seconds.cast_signed(), nanoseconds.cast_signed()).unwrap();
        assert_eq!(time, now.parse().unwrap());
        assert_eq!(shop.show(&moved.to_string())["dead_lettered_at"], now);
    }

    fn a_reason_is_read_by_a_number_of_any_sign(kind: Kind) {
        let (shop, row) = with_a_row(kind);
        let row = row.each_ref().map(String::as_str);
        let moved = shop.run(&[&row[..], &["--reason", "-5", "--json"]].concat()).exits(0).json();
        assert_eq!(shop.show(moved.as_str().unwrap())["failure_reason"], -5);
    }

    fn an_error_that_is_no_utf_8_is_kept_with_a_visible_mark(kind: Kind) {
        let (shop, row) = with_a_row(kind);
        let options = ["--reason", "8", "--json", "--error"].map(OsString::from);
        let error = OsString::from_vec(b"gone \xff\xfe wrong".to_vec());
        let arguments: Vec<_> = row.into_iter().map(OsString::from).chain(options).chain([error]).collect();
        let program = Program::new(&arguments).folder(shop.path());
        let program = shop.store().into_iter().fold(program, |program, store| program.env("REPRIEVE_STORE", store));
        let moved = program.run().exits(0).json();
        assert_eq!(shop.show(moved.as_str().unwrap())["error_text"], "gone \u{fffd}\u{fffd} wrong");
    }

    fn an_error_that_begins_like_an_option_is_a_text(kind: Kind) {
        let (shop, row) = with_a_row(kind);
        let row = row.each_ref().map(String::as_str);
        let options = ["--reason", "8", "--json", "--error", "-1: no answer"];
        let moved = shop.run(&[&row[..], &options].concat()).exits(0).json();
        assert_eq!(shop.show(moved.as_str().unwrap())["error_text"], "-1: no answer");
    }

    fn a_row_is_moved_once_and_the_second_time_there_is_nothing_to_move(kind: Kind) {
        let (shop, row) = with_a_row(kind);
        let row = row.each_ref().map(String::as_str);
        let more = ["--reason", "Throttled", "--error", "no answer", "--generation", "shop-2", "--json"];
        let arguments = [&row[..], &more].concat();
        let moved = shop.run(&arguments).exits(0).json();
        let whole = shop.show(moved.as_str().unwrap());
        assert_eq!(whole["error_text"], "no answer");
        assert_eq!(whole["generation"], "shop-2");
        assert_eq!(whole["incarnation"], 2);
        assert_eq!(whole["incarnations"][0]["dead_letter_id"], id(1));
        assert_eq!(shop.run(&arguments).exits(0).json(), Value::Null);
    }
}
