//! What every test stands on: a database of each kind, rows to put into it, and the program itself.
//!
//! A test that holds for both stores is written once, inside [`on_both_stores!`]. PostgreSQL is a real server that the
//! first test to need it starts and that ends with the test process; each test gets a database of its own.

#![allow(dead_code, unused_imports, reason = "each test takes what it needs")]

pub mod arrivals;
pub mod backend;
pub mod batches;
pub mod clock;
pub mod databases;
pub mod program;
pub mod proxy;
pub mod psql;
pub mod raw;
pub mod rows;
pub mod server;

pub use arrivals::{arrivals, watch_arrivals};
pub use backend::Backend;
pub use batches::{attempt, begin, claim, claim_after, claim_streams, ending, recover_all, settle};
pub use clock::{T0, at, id, instance, source, stream, time_text};
pub use databases::{empty_database, migrated_database};
pub use program::{Program, Run, reprieve};
pub use psql::{Psql, psql};
pub use rows::{dead_letter, import_line, inbox_row, outbox_row, perspective_row};

/// Runs one test body on SQLite and on PostgreSQL, each on a fresh and migrated database.
macro_rules! on_both_stores {
    ($( $(#[$meta:meta])* async fn $name:ident($store:ident: $kind:ty) $body:block )+) => { $(
        $(#[$meta])*
        async fn $name($store: $kind) $body

        mod $name {
            #[test]
            fn on_sqlite() {
                $crate::harness::backend::on_sqlite(super::$name);
            }

            #[test]
            fn on_postgres() {
                $crate::harness::backend::on_postgres(super::$name);
            }
        }
    )+ };
}
