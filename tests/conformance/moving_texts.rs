//! Nothing in the texts of a row makes a move fail.

use reprieve::model::SourceTable;
use serde_json::json;

use crate::harness::rows::{moving, with};
use crate::harness::{Backend, id, outbox_row, source};

const LIMIT: usize = 64 * 1024;

async fn error_text_after_a_move(store: &Backend, text: &str) -> String {
    store.insert("wh_outbox", &outbox_row(1)).await;
    let mut request = moving(SourceTable::Outbox, 1);
    request.error_text = Some(text.to_owned());
    assert!(store.move_to_dead_letters(&request).await.unwrap().is_some());
    store.letter(id(1)).await.error_text.expect("a text stays a text")
}

on_both_stores! {
    async fn an_error_text_of_a_megabyte_is_cut_with_a_mark(store: Backend) {
        let text = "é🚚".repeat(1024 * 1024 / 6);

        let stored = error_text_after_a_move(&store, &text).await;

        assert!(stored.len() <= LIMIT, "{} bytes are at most {LIMIT}", stored.len());
        assert!(stored.len() > LIMIT - 200, "no more than needed is cut: {} bytes", stored.len());
        assert!(stored.starts_with("é🚚é🚚"));
        let end = &stored[stored.len() - 10..];
        assert!(!text.contains(end), "the end says that it was cut: {end:?}");
    }

    async fn an_error_text_of_exactly_the_limit_is_kept(store: Backend) {
        let text = "x".repeat(LIMIT);

        assert_eq!(error_text_after_a_move(&store, &text).await, text);
    }

    async fn an_error_text_with_nul_is_stored_with_a_visible_mark(store: Backend) {
        let stored = error_text_after_a_move(&store, "before\0after").await;

        assert!(!stored.contains('\0'));
        assert!(stored.starts_with("before") && stored.ends_with("after"), "{stored}");
        assert!(stored.len() > "beforeafter".len(), "{stored}");
    }

    async fn an_empty_error_text_stays_empty_and_has_a_fingerprint(store: Backend) {
        assert_eq!(error_text_after_a_move(&store, "").await, "");
        assert_eq!(store.letter(id(1)).await.error_fingerprint.map(|digits| digits.len()), Some(16));
    }

    async fn quotes_control_characters_and_scripts_are_kept(store: Backend) {
        let text = "it's \"bad\" \\ \u{1b}[31m\r\n\t$1 %s {0} 🚚 Größe 価格 عربي \u{202e}x\u{feff}";

        assert_eq!(error_text_after_a_move(&store, text).await, text);
    }

    async fn odd_bodies_come_back_equal(store: Backend) {
        let mut deep = json!("bottom");
        for _ in 0..50 {
            deep = json!([{ "d": deep }]);
        }
        let bodies = [
            json!({}),
            json!(null),
            json!([]),
            json!(""),
            json!(9_223_372_036_854_775_807_i64),
            json!({"n": -9_223_372_036_854_775_808_i64, "half": 0.5}),
            json!({"key with \"quotes\" and 'ticks'": "\u{1}\u{1f}\u{7f}", "": "empty key"}),
            json!({"emoji": "👩‍👩‍👧‍👦", "surrogate pair": "𝄞"}),
            deep,
        ];
        for (n, body) in (1_u64..).zip(&bodies) {
            store.insert("wh_outbox", &outbox_row(n)).await;
            let text = crate::harness::rows::quoted(&body.to_string());
            store.execute(&format!("update wh_outbox set event_data = {text} where message_id = '{}'", source(n))).await;
            assert!(store.move_to_dead_letters(&moving(SourceTable::Outbox, n)).await.unwrap().is_some());
            assert_eq!(&store.raw_letter(id(n)).await["envelope"]["event_data"], body);

            assert!(store.recover_dead_letter(id(n), None).await.unwrap(), "{body} is re-emitted");
            assert_eq!(&store.source_row("wh_outbox", source(n)).await.unwrap()["event_data"], body);
        }
    }

    async fn a_body_of_ten_megabytes_is_moved_and_comes_back(store: Backend) {
        let body = json!({"blob": "0123456789abcdef".repeat(10 * 1024 * 1024 / 16)});
        store.insert("wh_outbox", &with(outbox_row(1), json!({"event_data": body}))).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        assert!(store.recover_dead_letter(id(1), None).await.unwrap());

        assert!(store.source_row("wh_outbox", source(1)).await.unwrap()["event_data"] == body);
    }

    async fn numbers_keep_all_their_digits(store: Backend) {
        store.insert("wh_outbox", &outbox_row(1)).await;
        let body = r#"{"big": 123456789012345678901234567890, "price": 19.990000000000000001}"#;
        store.execute(&format!("update wh_outbox set event_data = '{body}'")).await;

        store.move_to_dead_letters(&moving(SourceTable::Outbox, 1)).await.unwrap();
        store.recover_dead_letter(id(1), None).await.unwrap();

        let cast = if store.is_postgres() { "event_data::text" } else { "event_data" };
        let text = store.value(&format!("select {cast} as body from wh_outbox")).await;
        let text = text.as_str().unwrap();
        assert!(text.contains("123456789012345678901234567890") && text.contains("19.990000000000000001"), "{text}");
    }
}
