//! Creating and updating the schema.
//!
//! Each migration is a transaction of its own under a transaction-level lock, so that two hosts can migrate at once
//! through any proxy. It waits only briefly for a table, and tries again: whoever queues behind it waits as briefly.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, Transaction};

use super::PostgresStore;
use super::functions::{self, MARK_FUNCTIONS};
use super::rows::get;
use crate::store::{Result, StoreError};

struct Migration {
    number: i32,
    name: &'static str,
    script: &'static str,
}

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../../../migrations/postgres/", $name, ".sql"))
    };
}

/// In the order in which they are applied. Numbers grow with each change of the schema, on either store: a released
/// migration of a table or of an index never changes, and the first change of a function after a release takes the next
/// number for all of them.
const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "0001_create_work_tables", script: script!("0001_create_work_tables") },
    Migration { number: DEAD_LETTERS, name: "0002_create_dead_letters", script: script!("0002_create_dead_letters") },
    Migration { number: FUNCTIONS, name: "functions", script: FUNCTION_SCRIPT },
    Migration { number: INDEXES, name: "0003_create_indexes", script: script!("0003_create_indexes") },
];

const DEAD_LETTERS: i32 = 2;
/// Its indexes need the functions.
const INDEXES: i32 = 3;
/// Functions are replaced as a whole where an earlier number of them is recorded.
const FUNCTIONS: i32 = 29;

/// Each function once, as it is now, in an order in which none needs a later one.
const FUNCTION_SCRIPT: &str = concat!(
    script!("functions/text"),
    script!("functions/fingerprint"),
    script!("functions/streams"),
    script!("functions/move"),
    script!("functions/source_insert"),
    script!("functions/reemission"),
    script!("functions/recover"),
    script!("functions/verbs"),
    script!("functions/restore"),
    script!("functions/settle"),
    script!("functions/settle_apart"),
    script!("functions/free_rows"),
    script!("functions/claim"),
    script!("functions/begin"),
    script!("functions/leases"),
    script!("functions/sweep"),
    script!("functions/operator"),
    script!("functions/signals"),
    script!("functions/retention"),
    script!("functions/perspective_claim"),
    script!("functions/perspective_orphans"),
    script!("functions/perspective_report"),
);

const CREATE_BOOKKEEPING: &str = "create table if not exists reprieve_migrations (\
    number integer primary key, name text not null, checksum text not null, \
    applied_at timestamptz not null default now())";

pub(crate) const APPLIED: &str = "select number, name from reprieve_migrations";

/// A later host's functions are no longer what this one has just replaced.
pub(crate) const FORGET_LATER_FUNCTIONS: &str =
    "delete from reprieve_migrations where name = 'functions' and number > $1";

pub(crate) const RECORD: &str = "insert into reprieve_migrations (number, name, checksum) \
    values ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex')) on conflict (number) do nothing";

/// Short enough that whoever queues behind a migration that waits for a table hardly notices.
const PREPARE: &str = "set local lock_timeout = '300ms'; set local statement_timeout = 0; \
    select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true); \
    set local client_min_messages = warning; \
    select pg_advisory_xact_lock(hashtextextended('reprieve migrate ' || current_schema(), 0))";

const FOLLOW_COLUMNS: &str = "select reprieve_create_restore()";

const ACTION: &str = "migrate";

impl Migration {
    /// Whether a schema with these has it. Functions of a later host, with which this one works, stay.
    fn is_among(&self, applied: &[(i32, String)]) -> bool {
        applied.iter().any(|(number, name)| match self.number {
            FUNCTIONS => name == self.name && *number >= FUNCTIONS,
            own => *number == own,
        })
    }
}

fn applied(rows: &[PgRow]) -> Vec<(i32, String)> {
    rows.iter().filter_map(|row| Some((get(row, "number").ok()?, get(row, "name").ok()?))).collect()
}

impl PostgresStore {
    pub(super) async fn migrate_schema(&self, adopt: bool) -> Result<Vec<String>> {
        self.require_schema().await?;
        let foreign = self.foreign_functions().await?;
        if let (false, Some(function)) = (adopt, foreign.first()) {
            return Err(StoreError::ForeignFunction { function: function.clone() });
        }
        let mut applied = Vec::new();
        for migration in MIGRATIONS {
            let again = migration.number == FUNCTIONS && !foreign.is_empty();
            if self.apply(migration, again, &foreign).await? {
                applied.push(migration.name.to_owned());
            }
        }
        self.with_retries(|| self.follow_columns()).await?;
        Ok(applied)
    }

    pub(super) async fn require_migrations(&self) -> Result<()> {
        let not_migrated = || StoreError::NotMigrated { store: self.name.clone() };
        let rows = match self.rows("read its migrations", self.query(APPLIED)).await {
            Err(StoreError::Database { problem, .. }) if problem.contains("reprieve_migrations") => {
                return Err(not_migrated());
            }
            other => other?,
        };
        let applied = applied(&rows);
        if MIGRATIONS.iter().all(|migration| migration.is_among(&applied)) { Ok(()) } else { Err(not_migrated()) }
    }

    async fn require_schema(&self) -> Result<()> {
        let row = self.row(ACTION, self.query("select current_schema()::text as name")).await?;
        match get::<Option<String>>(&row, "name") {
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(_) => Err(StoreError::Unusable {
                store: self.name.clone(),
                problem: "no schema of the search path exists: create it, or set search_path".to_owned(),
            }),
        }
    }

    /// Applies a migration unless it is recorded; whether it was applied.
    async fn apply(&self, migration: &Migration, again: bool, foreign: &[String]) -> Result<bool> {
        let done = self.with_retries(|| self.run_script(migration, again, foreign)).await?;
        match migration.number {
            DEAD_LETTERS if done => self.ensure_checks().await?,
            INDEXES => self.ensure_indexes(migration.script).await?,
            _ => {}
        }
        if done {
            self.with_retries(|| self.record(migration)).await?;
        }
        Ok(done)
    }

    /// Runs a script and, unless more is to be done before it counts, records it in the same transaction.
    async fn run_script(&self, migration: &Migration, again: bool, foreign: &[String]) -> Result<bool> {
        let mut transaction = self.prepared_transaction().await?;
        let refused = |error| self.refused(ACTION, error);
        sqlx::raw_sql(CREATE_BOOKKEEPING).execute(&mut *transaction).await.map_err(refused)?;
        let rows = self.query(APPLIED).fetch_all(&mut *transaction).await.map_err(refused)?;
        if migration.is_among(&applied(&rows)) && !again {
            return Ok(false);
        }
        if migration.number == FUNCTIONS {
            functions::drop_foreign(&mut transaction, foreign).await.map_err(refused)?;
        }
        if migration.number != INDEXES {
            sqlx::raw_sql(migration.script).execute(&mut *transaction).await.map_err(refused)?;
        }
        // Not before the foreign functions of a contract name are gone.
        if migration.number == FUNCTIONS {
            sqlx::raw_sql(MARK_FUNCTIONS).execute(&mut *transaction).await.map_err(refused)?;
        }
        if again {
            let forget = self.query(FORGET_LATER_FUNCTIONS).bind(FUNCTIONS);
            forget.execute(&mut *transaction).await.map_err(refused)?;
        }
        if ![DEAD_LETTERS, INDEXES].contains(&migration.number) {
            self.record_in(&mut transaction, migration).await?;
        }
        transaction.commit().await.map_err(refused)?;
        Ok(true)
    }

    /// Makes the functions anew that were made for other columns than the application's tables have by now.
    async fn follow_columns(&self) -> Result<()> {
        let mut transaction = self.prepared_transaction().await?;
        sqlx::raw_sql(FOLLOW_COLUMNS).execute(&mut *transaction).await.map_err(|error| self.refused(ACTION, error))?;
        transaction.commit().await.map_err(|error| self.refused(ACTION, error))
    }

    async fn record(&self, migration: &Migration) -> Result<()> {
        let mut transaction = self.prepared_transaction().await?;
        self.record_in(&mut transaction, migration).await?;
        transaction.commit().await.map_err(|error| self.refused(ACTION, error))
    }

    async fn record_in(&self, transaction: &mut Transaction<'static, Postgres>, migration: &Migration) -> Result<()> {
        let record = self.query(RECORD).bind(migration.number).bind(migration.name).bind(migration.script);
        record.execute(&mut **transaction).await.map_err(|error| self.refused(ACTION, error))?;
        Ok(())
    }

    /// A transaction that waits only briefly for locks, and for other migrating hosts.
    pub(super) async fn prepared_transaction(&self) -> Result<Transaction<'static, Postgres>> {
        let mut transaction = self.begin_transaction(ACTION).await?;
        sqlx::raw_sql(PREPARE).execute(&mut *transaction).await.map_err(|error| self.refused(ACTION, error))?;
        Ok(transaction)
    }

    /// Repeats what ran into somebody else's lock, for about a minute.
    pub(super) async fn with_retries<T, F, Fut>(&self, step: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let backoff = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(50))
            .with_max_delay(Duration::from_secs(1))
            .with_total_delay(Some(Duration::from_secs(60)))
            .without_max_times()
            .with_jitter();
        step.retry(backoff).when(StoreError::is_transient).await
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// A host leaves functions alone that are recorded under their number: the first change after a release takes the next.
    #[test]
    fn a_change_of_a_function_is_seen() {
        let start: String = Sha256::digest(FUNCTION_SCRIPT).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (FUNCTIONS, start.as_str()),
            (29, "e42e0ebf0499e267"),
            "raise FUNCTIONS, if it is released, and write both down"
        );
    }
}
