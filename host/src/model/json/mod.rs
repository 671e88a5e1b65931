//! Dead letters as JSON: what is printed and recorded, and what is read.
//!
//! Written: every column under its name in column order, reasons, statuses and dispositions by name, times in RFC 3339
//! with zone. Read: the same, names also by number and in any case, and no field that is not a column, or
//! stands beside the columns of a row that was printed.

mod entry;
mod error;
mod escapes;
mod fields;
mod import;
mod values;
mod write;

#[cfg(test)]
mod tests;

pub use entry::{WAITS_FOR, parse_entry, parse_view};
pub use error::{FieldError, MAX_SHOWN_VALUE};
pub use escapes::{HALF_PAIR_MARK, mend_escapes};
pub use import::ImportLine;
pub use write::{to_json, to_text, write_columns, write_entry, write_string};

/// What is wrong with an entry.
pub type JsonError = FieldError;
