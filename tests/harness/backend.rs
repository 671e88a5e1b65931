//! A store under test and the database behind it.

use std::ops::Deref;

use reprieve::model::DeadLetter;
use reprieve::store::{Row, SharedStore, Store};
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, Postgres, Transaction};
use tempfile::TempDir;
use uuid::Uuid;

use super::databases::{empty_database, migrated_database};
use super::raw::Raw;

/// A store of one kind on a database of its own. It dereferences to the store.
pub struct Backend {
    /// Where the database is.
    pub url: String,
    /// SQL past the store.
    pub raw: Raw,
    store: SharedStore,
    // Held, not used: the folder goes when the test ends.
    _folder: Option<TempDir>,
}

impl Deref for Backend {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

/// Opens the store at a URL, as every command does.
pub async fn open_store(url: &str) -> SharedStore {
    reprieve::store::open::open(url, &reprieve::store::open::Options { create: true, ..Default::default() })
        .await
        .expect("the store opens")
}

/// Runs a test body on a migrated SQLite file.
pub fn on_sqlite<F: Future<Output = ()>>(body: impl FnOnce(Backend) -> F) {
    run(async {
        let backend = Backend::empty_sqlite().await;
        backend.migrate(false).await.expect("an empty file takes the schema");
        body(backend).await;
    });
}

/// Runs a test body on a migrated PostgreSQL database.
pub fn on_postgres<F: Future<Output = ()>>(body: impl FnOnce(Backend) -> F) {
    let url = migrated_database();
    run(async { body(Backend::at(url, None).await).await });
}

/// Runs a test body in a runtime of its own.
pub fn run(body: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(body);
}

impl Backend {
    /// The store at a URL.
    pub async fn at(url: String, folder: Option<TempDir>) -> Self {
        let store = open_store(&url).await;
        Self { raw: Raw::connect(&url), url, store, _folder: folder }
    }

    /// A SQLite file without any table.
    pub async fn empty_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("reprieve.db").display());
        Self::at(url, Some(folder)).await
    }

    /// A PostgreSQL database without any table.
    pub async fn empty_postgres() -> Self {
        Self::at(empty_database(), None).await
    }

    /// The same store, to be given to tasks.
    pub fn shared(&self) -> SharedStore {
        self.store.clone()
    }

    /// Another store on the same database, as another process has it.
    pub async fn another(&self) -> SharedStore {
        open_store(&self.url).await
    }

    /// Whether this is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.raw, Raw::Postgres(_))
    }

    /// Runs statements past the store.
    pub async fn execute(&self, sql: &str) {
        self.raw.try_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// What the database says to a statement that it must refuse.
    pub async fn refuses(&self, sql: &str) -> String {
        self.raw.try_execute(sql).await.expect_err(sql)
    }

    /// The rows of a query past the store.
    pub async fn query(&self, sql: &str) -> Vec<Map<String, Value>> {
        self.raw.query(sql).await
    }

    /// The one value of a query past the store.
    pub async fn value(&self, sql: &str) -> Value {
        let rows = self.query(sql).await;
        assert_eq!(rows.len(), 1, "{sql} gives one row");
        rows[0].values().next().expect("a column").clone()
    }

    /// How many rows a table has.
    pub async fn rows_in(&self, table: &str) -> i64 {
        self.value(&format!("select count(*) as n from {table}")).await.as_i64().unwrap()
    }

    /// From now on, new sessions of this PostgreSQL count the calls of functions; each tells them at its end.
    pub async fn count_calls(&self) {
        let database = self.value("select current_database()::text as n").await;
        self.execute(&format!("alter database {} set track_functions = 'pl'", database.as_str().unwrap())).await;
    }

    /// How often functions were called by sessions that have told it.
    pub async fn calls(&self, functions: &[&str]) -> i64 {
        let names = functions.join("', '");
        let sum = format!(
            "select coalesce(sum(calls), 0)::bigint as n from pg_stat_user_functions where funcname in ('{names}')"
        );
        self.value(&sum).await.as_i64().unwrap()
    }

    /// Puts a row into a table.
    pub async fn insert(&self, table: &str, row: &Value) {
        self.execute(&self.insert_sql(table, row)).await;
    }

    /// Puts the `n`-th dead letter there, with some columns of its own.
    pub async fn dead(&self, n: u64, changes: Value) {
        self.insert("wh_dead_letters", &super::rows::with(super::dead_letter(n), changes)).await;
    }

    /// A transaction of another session of this PostgreSQL, which has run these statements.
    pub async fn transaction(&self, sql: &str) -> Transaction<'static, Postgres> {
        let Raw::Postgres(pool) = &self.raw else { panic!("this is PostgreSQL") };
        let mut transaction = pool.begin().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *transaction).await.unwrap();
        transaction
    }

    /// Returns once one session of this PostgreSQL waits for what another one has locked.
    pub async fn until_one_waits(&self) {
        const WAITING: &str = "select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while self.value(WAITING).await != json!(1) {
            tokio::task::yield_now().await;
        }
    }

    /// From now on no change of the dead letter with this id is taken.
    pub async fn refuse_changes_of(&self, id: Uuid) {
        self.refuse_changes(&format!("new.dead_letter_id = '{id}'")).await;
    }

    /// Makes the database refuse the changes of dead letters that a condition on `new` is true of.
    pub async fn refuse_changes(&self, condition: &str) {
        self.on_changes(condition, "raise exception 'never';", "raise(abort, 'never')").await;
    }

    /// Makes the database pass over those changes without a word.
    pub async fn pass_over_changes(&self, condition: &str) {
        self.on_changes(condition, "return null;", "raise(ignore)").await;
    }

    /// Has a trigger do something before the changes of dead letters that a condition on `new` is true of.
    pub async fn on_changes(&self, condition: &str, on_postgres: &str, on_sqlite: &str) {
        let trigger = if self.is_postgres() {
            format!(
                "create function refuse() returns trigger language plpgsql as $$ begin {on_postgres} end $$;
                 create trigger refuse before update on wh_dead_letters for each row
                 when ({condition}) execute function refuse()"
            )
        } else {
            format!(
                "create trigger refuse before update on wh_dead_letters when {condition}
                 begin select {on_sqlite}; end"
            )
        };
        self.execute(&trigger).await;
    }

    /// Makes each insert into the outbox of a PostgreSQL wait for the advisory lock 42, which a test holds meanwhile.
    pub async fn inserts_wait(&self) {
        self.execute(
            "create function waits() returns trigger language plpgsql as
                 $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
             create trigger waits before insert on wh_outbox for each row execute function waits()",
        )
        .await;
    }

    /// The statement that puts a row into a table.
    pub fn insert_sql(&self, table: &str, row: &Value) -> String {
        super::rows::insert_sql(table, row, self.is_postgres())
    }

    /// The row of a source table with this id, every column.
    pub async fn source_row(&self, table: &str, id: Uuid) -> Option<Map<String, Value>> {
        let key = if table == "wh_perspective_events" { "event_work_id" } else { "message_id" };
        self.query(&format!("select * from {table} where {key} = '{id}'")).await.pop()
    }

    /// A dead letter's columns past the store.
    pub async fn raw_letter(&self, id: Uuid) -> Map<String, Value> {
        let mut rows = self.query(&format!("select * from wh_dead_letters where dead_letter_id = '{id}'")).await;
        rows.pop().unwrap_or_else(|| panic!("there is no dead letter {id}"))
    }

    /// A dead letter as the store reads it.
    pub async fn letter(&self, id: Uuid) -> DeadLetter {
        match self.show(id).await.expect("show").unwrap_or_else(|| panic!("there is no dead letter {id}")).row {
            Row::Readable(letter) => letter,
            Row::Unreadable { problem, .. } => panic!("dead letter {id} cannot be read: {problem}"),
        }
    }
}

/// The ids of rows that can be read.
pub fn ids_of(rows: &[Row]) -> Vec<Uuid> {
    rows.iter()
        .map(|row| match row {
            Row::Readable(letter) => letter.dead_letter_id,
            Row::Unreadable { dead_letter_id, problem } => panic!("{dead_letter_id} cannot be read: {problem}"),
        })
        .collect()
}
