//! Creating and updating the schema.
//!
//! Each migration is a transaction of its own under a transaction-level lock, so that two hosts can migrate at once
//! through any proxy. It waits only briefly for a table, and tries again: whoever queues behind it waits as briefly.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
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

macro_rules! migration {
    ($number:literal, $name:literal) => {
        Migration {
            number: $number,
            name: $name,
            script: include_str!(concat!("../../../../migrations/postgres/", $name, ".sql")),
        }
    };
}

/// In the order in which they are applied. A released migration never changes.
const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_create_work_tables"),
    migration!(2, "0002_create_dead_letters"),
    migration!(3, "0003_create_indexes"),
    migration!(4, "0004_create_fingerprint"),
    migration!(5, "0005_create_verbs"),
    migration!(6, "0006_create_claim"),
    migration!(7, "0007_create_begin"),
    migration!(8, "0008_create_reemission"),
    migration!(9, "0009_create_settle"),
    migration!(10, "0010_create_rescue_and_sweep"),
    migration!(11, "0011_create_signals"),
    migration!(12, "0012_create_operator_functions"),
    migration!(13, "0013_settle_at_once"),
    migration!(14, "0014_create_perspective_functions"),
    migration!(15, "0015_create_perspective_indexes"),
    migration!(16, "0016_clear_policy_deferrals"),
    migration!(17, "0017_create_incarnation_index"),
    migration!(18, "0018_quicken_claim"),
    migration!(19, "0019_forget_decisions"),
    migration!(20, "0020_create_stream_indexes"),
    migration!(21, "0021_forget_settled"),
    migration!(22, "0022_find_earlier_rows"),
    migration!(23, "0023_put_off_in_streams"),
    migration!(24, "0024_settle_in_order"),
    migration!(25, "0025_wake_streams_by_verbs"),
    migration!(26, "0026_lock_in_order"),
    migration!(27, "0027_keep_later_deaths"),
    migration!(28, "0028_count_rows_passed"),
];

const DEAD_LETTERS: i32 = 2;
const INDEXES: [i32; 4] = [3, 15, 17, 20];
const VERBS: i32 = 5;

const CREATE_BOOKKEEPING: &str = "create table if not exists reprieve_migrations (\
    number integer primary key, name text not null, checksum text not null, \
    applied_at timestamptz not null default now())";

pub(crate) const APPLIED: &str = "select number from reprieve_migrations";

pub(crate) const RECORD: &str = "insert into reprieve_migrations (number, name, checksum) \
    values ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex')) on conflict (number) do nothing";

/// Short enough that whoever queues behind a migration that waits for a table hardly notices.
const PREPARE: &str = "set local lock_timeout = '300ms'; set local statement_timeout = 0; \
    select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true); \
    set local client_min_messages = warning; \
    select pg_advisory_xact_lock(hashtextextended('reprieve migrate ' || current_schema(), 0))";

const FOLLOW_COLUMNS: &str = "select reprieve_create_restore()";

const ACTION: &str = "migrate";

impl PostgresStore {
    pub(super) async fn migrate_schema(&self, adopt: bool) -> Result<Vec<String>> {
        self.require_schema().await?;
        let foreign = self.foreign_functions().await?;
        if let (false, Some(function)) = (adopt, foreign.first()) {
            return Err(StoreError::ForeignFunction { function: function.clone() });
        }
        let mut applied = Vec::new();
        for migration in MIGRATIONS {
            // All that follow, since a later one may replace what an earlier one made.
            let again = migration.number >= VERBS && !foreign.is_empty();
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
        let numbers: Vec<i32> = rows.iter().filter_map(|row| get(row, "number").ok()).collect();
        if MIGRATIONS.iter().all(|migration| numbers.contains(&migration.number)) {
            Ok(())
        } else {
            Err(not_migrated())
        }
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
            number if INDEXES.contains(&number) => self.ensure_indexes(migration.script).await?,
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
        let recorded = rows.iter().any(|row| get::<i32>(row, "number") == Ok(migration.number));
        if recorded && !again {
            return Ok(false);
        }
        if migration.number == VERBS {
            functions::drop_foreign(&mut transaction, foreign).await.map_err(refused)?;
        }
        if !INDEXES.contains(&migration.number) {
            sqlx::raw_sql(migration.script).execute(&mut *transaction).await.map_err(refused)?;
        }
        // Not before the foreign functions of a contract name are gone.
        if migration.number >= VERBS {
            sqlx::raw_sql(MARK_FUNCTIONS).execute(&mut *transaction).await.map_err(refused)?;
        }
        if !INDEXES.contains(&migration.number) && migration.number != DEAD_LETTERS {
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
