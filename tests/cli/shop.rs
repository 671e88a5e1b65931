//! A folder with a store in it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::backend::run;
use crate::harness::raw::Raw;
use crate::harness::{Program, Run, migrated_database};

/// When the tests' dead letters died.
pub const DIED: &str = "2026-01-01T00:00:00Z";
/// An hour later.
pub const LATER: &str = "2026-01-01T01:00:00Z";

/// What the store of a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    /// A migrated, empty store.
    pub fn shop(self) -> Shop {
        match self {
            Self::Sqlite => Shop::new(),
            Self::Postgres => Shop { store: Some(migrated_database()), ..Shop::unmigrated() },
        }
    }

    /// A store with these dead letters, imported.
    pub fn shop_with(self, letters: &[Value]) -> Shop {
        let shop = self.shop();
        shop.import(&lines(letters)).exits(0);
        shop
    }
}

/// Runs one test body on a shop of each kind.
macro_rules! in_both_shops {
    ($( fn $name:ident($kind:ident: Kind) $body:block )+) => { $(
        fn $name($kind: Kind) $body

        mod $name {
            use super::Kind;

            #[test]
            fn on_sqlite() {
                super::$name(Kind::Sqlite);
            }

            #[test]
            fn on_postgres() {
                super::$name(Kind::Postgres);
            }
        }
    )+ };
}

/// A folder to run in, with a store: its `reprieve.db` unless another is named.
pub struct Shop {
    folder: TempDir,
    store: Option<String>,
}

impl Shop {
    /// A migrated, empty store.
    pub fn new() -> Self {
        let shop = Self::unmigrated();
        shop.run(&["migrate"]).exits(0);
        shop
    }

    /// A folder without a store.
    pub fn unmigrated() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: None }
    }

    /// A store with these dead letters, imported.
    pub fn with(letters: &[Value]) -> Self {
        Kind::Sqlite.shop_with(letters)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program in the folder, to be run.
    pub fn program(&self, arguments: &[&str]) -> Program {
        let program = Program::new(arguments).folder(self.path());
        self.store.iter().fold(program, |program, store| program.env("REPRIEVE_STORE", store))
    }

    /// The URL of its store, when that is no file of the folder.
    pub fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Runs SQL past the program.
    pub fn execute(&self, sql: &str) {
        run(async { self.raw().try_execute(sql).await.unwrap_or_else(|error| panic!("{error}: {sql}")) });
    }

    /// The column `n` of a query, as texts.
    pub fn texts(&self, sql: &str) -> Vec<String> {
        let mut rows = Vec::new();
        run(async { rows = self.raw().query(sql).await });
        rows.into_iter().map(|row| row["n"].as_str().unwrap().to_owned()).collect()
    }

    fn raw(&self) -> Raw {
        let file = || format!("sqlite://{}", self.path().join("reprieve.db").display());
        Raw::connect(&self.store.clone().unwrap_or_else(file))
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.program(arguments).run()
    }

    /// Imports what is given on standard input.
    pub fn import(&self, text: &str) -> Run {
        self.program(&["import", "-", "--json"]).stdin(text).run()
    }

    /// What `stats --json` says.
    pub fn stats(&self) -> Value {
        self.run(&["stats", "--json"]).exits(0).json()
    }

    /// A dead letter as `show --json` tells it.
    pub fn show(&self, id: &str) -> Value {
        self.run(&["show", id, "--json"]).exits(0).json()
    }
}

/// The id of the `n`-th dead letter.
pub fn id(n: u32) -> String {
    format!("01900000-0000-7000-8000-{n:012}")
}

/// The `n`-th dead letter, throttled, with some fields of its own.
pub fn letter(n: u32, fields: Value) -> Value {
    let mut letter = json!({
        "dead_letter_id": id(n), "source_id": format!("01900000-0000-7000-9000-{n:012}"), "source_table": "wh_outbox",
        "message_type": "Shop.OrderPlaced", "failure_reason": "Throttled", "dead_lettered_at": DIED,
        "destination": "orders",
    });
    letter.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    letter
}

/// As JSON lines.
pub fn lines(letters: &[Value]) -> String {
    letters.iter().map(|letter| format!("{letter}\n")).collect()
}
