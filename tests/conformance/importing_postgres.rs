//! Bodies that SQLite keeps and PostgreSQL cannot hold.

use reprieve::store::{Import, StoreError};

use crate::harness::rows::{import_line, raw_json};
use crate::harness::{backend, id};

/// Imports three rows, of which the second has this body; what the store says.
fn assert_names_the_second(event_data: String) {
    backend::on_postgres(async |store| {
        let mut rows = [import_line(1), import_line(2), import_line(3)];
        rows[1].envelope = raw_json(&format!(r#"{{"event_data": {event_data}, "metadata": {{}}}}"#));

        let error = store.import(&Import { rows: &rows, now: None }).await.unwrap_err();

        assert!(matches!(&error, StoreError::BadRow { dead_letter_id, .. } if *dead_letter_id == id(2)), "{error}");
        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    });
}

#[test]
fn a_number_beyond_its_range_is_an_error_that_names_the_row() {
    assert_names_the_second("1e400000".to_owned());
}

#[test]
fn nesting_beyond_its_stack_is_an_error_that_names_the_row() {
    assert_names_the_second(format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)));
}
