//! `move`.

use serde_json::{Value, json};

use super::shop::{Kind, LATER, id, letter};

in_both_shops! {
    fn a_row_is_moved_once_and_the_second_time_there_is_nothing_to_move(kind: Kind) {
        // A recovered dead letter leaves a row in its source table.
        let shop = kind.shop_with(&[letter(1, json!({}))]);
        shop.run(&["scan", "--now", LATER]).exits(0);
        let source = shop.show(&id(1))["source_id"].as_str().unwrap().to_owned();
        let arguments = [
            "move",
            "--source-table",
            "wh_outbox",
            "--source-id",
            &source,
            "--reason",
            "Throttled",
            "--error",
            "no answer",
            "--generation",
            "shop-2",
            "--json",
        ];
        let moved = shop.run(&arguments).exits(0).json();
        let whole = shop.show(moved.as_str().unwrap());
        assert_eq!(whole["error_text"], "no answer");
        assert_eq!(whole["generation"], "shop-2");
        assert_eq!(whole["incarnation"], 2);
        assert_eq!(whole["incarnations"][0]["dead_letter_id"], id(1));
        assert_eq!(shop.run(&arguments).exits(0).json(), Value::Null);
    }
}
