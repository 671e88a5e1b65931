//! CHECKs and indexes: what cannot be created in one transaction without holding others up.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::PostgresStore;
use super::error::sqlstate;
use super::rows::get;
use crate::store::{Result, StoreError};

const ACTION: &str = "migrate";

/// Names and conditions of the CHECKs on `wh_dead_letters`.
const CHECKS: [(&str, &str); 4] = [
    ("wh_dead_letters_source_table_check", "source_table in ('wh_outbox', 'wh_inbox', 'wh_perspective_events')"),
    ("wh_dead_letters_recovery_status_check", "recovery_status between 0 and 4"),
    ("wh_dead_letters_recovered_at_check", "(recovered_at is not null) = (recovery_status = 3)"),
    ("wh_dead_letters_attempts_check", "recovery_attempts >= 0 and attempts_when_dlq >= 0"),
];

pub(crate) const CHECK_STATE: &str = "\
    select c.convalidated from pg_catalog.pg_constraint c \
    where c.conrelid = to_regclass('wh_dead_letters') and c.conname = $1";

pub(crate) const INDEX_STATE: &str = "\
    select i.indisvalid as valid, exists (select from pg_catalog.pg_stat_progress_create_index p \
        where p.index_relid = i.indexrelid) as in_progress \
    from pg_catalog.pg_index i where i.indexrelid = to_regclass($1)";

/// How often, and after how long, an index is looked at again that another host is building.
const INDEX_LOOKS: u32 = 1200;
const INDEX_PAUSE: Duration = Duration::from_millis(250);

impl PostgresStore {
    /// Adds the CHECKs without reading the table under a strong lock. One that old rows break is left out.
    pub(super) async fn ensure_checks(&self) -> Result<()> {
        for (name, condition) in CHECKS {
            let validated = self.check_state(name).await?;
            if validated.is_none() {
                let add = format!("alter table wh_dead_letters add constraint {name} check ({condition}) not valid");
                self.with_retries(|| self.alter(add.clone())).await?;
            }
            if validated != Some(true) {
                self.validate(name).await?;
            }
        }
        Ok(())
    }

    async fn check_state(&self, name: &'static str) -> Result<Option<bool>> {
        let rows = self.rows(ACTION, self.query(CHECK_STATE).bind(name)).await?;
        Ok(rows.first().and_then(|row| get(row, "convalidated").ok()))
    }

    async fn validate(&self, name: &'static str) -> Result<()> {
        let validate = format!("alter table wh_dead_letters validate constraint {name}");
        match self.with_retries(|| self.alter(validate.clone())).await {
            Err(StoreError::Database { problem, .. }) if problem.contains(name) => {
                tracing::warn!(check = name, "rows that are there already break a check: it is left out");
                let drop = format!("alter table wh_dead_letters drop constraint if exists {name}");
                self.with_retries(|| self.alter(drop.clone())).await
            }
            other => other,
        }
    }

    async fn alter(&self, statement: String) -> Result<()> {
        let mut transaction = self.prepared_transaction().await?;
        let altered = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *transaction).await;
        match altered {
            // Another host was faster.
            Err(error) if sqlstate(&error).as_deref() == Some("42710") => return Ok(()),
            other => other.map_err(|error| self.refused(ACTION, error))?,
        };
        transaction.commit().await.map_err(|error| self.refused(ACTION, error))
    }

    /// Creates the indexes that are missing and rebuilds those that an interrupted build left invalid.
    pub(super) async fn ensure_indexes(&self, script: &'static str) -> Result<()> {
        for statement in script.split(';').map(without_comments).filter(|statement| !statement.is_empty()) {
            let (name, table) = names(&statement).ok_or_else(|| StoreError::Database {
                action: ACTION,
                problem: format!("not an index: {statement}"),
            })?;
            self.ensure_index(name, table, &statement).await?;
        }
        Ok(())
    }

    async fn ensure_index(&self, name: &str, table: &str, create: &str) -> Result<()> {
        for _ in 0..INDEX_LOOKS {
            let rows = self.rows(ACTION, self.query(INDEX_STATE).bind(name.to_owned())).await?;
            let state = rows.first().map(|row| (get(row, "valid") == Ok(true), get(row, "in_progress") == Ok(true)));
            let step = match state {
                Some((true, _)) => return Ok(()),
                Some((false, true)) => Ok(()),
                Some((false, false)) => self.drop_index(name).await,
                None if self.is_empty(table).await? => self.alter(create.replace("concurrently ", "")).await,
                None => self.run_alone(create.to_owned()).await,
            };
            match step {
                Ok(()) if state.is_some_and(|(_, in_progress)| !in_progress) || state.is_none() => {}
                Ok(()) => tokio::time::sleep(INDEX_PAUSE).await,
                Err(error) if is_contention(&error) => tokio::time::sleep(INDEX_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable {
            store: self.name.clone(),
            problem: format!("index {name} is still being built: wait for it, or look for what blocks it"),
        })
    }

    /// Drops an index unless it is gone already, also by another host at the same moment.
    async fn drop_index(&self, name: &str) -> Result<()> {
        if self.rows(ACTION, self.query(INDEX_STATE).bind(name.to_owned())).await?.is_empty() {
            return Ok(());
        }
        match self.with_retries(|| self.run_alone(format!("drop index concurrently if exists {name}"))).await {
            Err(error) if is_contention(&error) => Ok(()),
            other => other,
        }
    }

    async fn is_empty(&self, table: &str) -> Result<bool> {
        let statement = format!("select not exists (select from {table}) as empty");
        let query = sqlx::query(AssertSqlSafe(statement)).persistent(false);
        let row = self.row(ACTION, query).await?;
        Ok(get(&row, "empty") == Ok(true))
    }

    /// Runs a statement that no transaction may hold.
    async fn run_alone(&self, statement: String) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&self.pool)
            .await
            .map_err(|error| self.refused(ACTION, error))?;
        Ok(())
    }
}

/// Whether another host that migrates at the same time was in the way.
fn is_contention(error: &StoreError) -> bool {
    if let StoreError::Database { problem, .. } = error {
        return ["already exists", "does not exist", "duplicate key"].iter().any(|said| problem.contains(said));
    }
    error.is_transient()
}

fn without_comments(statement: &str) -> String {
    let lines: Vec<&str> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    lines.join("\n").trim().to_owned()
}

/// The names of the index and the table in `create index … if not exists NAME on TABLE …`.
fn names(statement: &str) -> Option<(&str, &str)> {
    let mut words = statement.split_whitespace().skip_while(|word| *word != "exists").skip(1);
    let name = words.next()?;
    words.next().filter(|word| *word == "on")?;
    Some((name, words.next()?))
}
