//! Telling our functions from others that have the name of one of the contract's.

use sqlx::{AssertSqlSafe, Postgres, Transaction};

use super::PostgresStore;
use super::rows::get;
use crate::store::Result;

/// The names that applications call, as a list of SQL literals.
macro_rules! contract_names {
    () => {
        "('move_to_dead_letters', 'fetch_dead_letters_due', 'recover_dead_letter', 'mark_dead_letter_holding', \
          'mark_dead_letter_permanently_failed', 'schedule_next_dead_letter_attempt', \
          'reset_dead_letters_for_generation', 'get_stream_events', 'claim_and_fetch_pending_perspective_events', \
          'claim_orphaned_perspective_events', 'complete_perspective_events', 'fail_perspective_events', \
          'heartbeat_service_instance', 'remove_stale_service_instances')"
    };
}

/// Functions of a contract name, whatever their arguments, that do not carry our mark; ready for `drop function`.
pub(crate) const FOREIGN: &str = concat!(
    "select p.oid::regprocedure::text as signature \
    from pg_catalog.pg_proc p \
    where p.pronamespace = quote_ident(current_schema())::regnamespace \
        and p.proname in ",
    contract_names!(),
    " and coalesce(obj_description(p.oid, 'pg_proc'), '') not like 'reprieve:%' \
    order by 1"
);

/// Marks the functions that a migration has just created. Foreign ones were found before, or dropped.
pub(super) const MARK_FUNCTIONS: &str = concat!(
    "do $$ \
    declare v_function regprocedure; \
    begin \
        for v_function in \
            select p.oid::regprocedure from pg_catalog.pg_proc p \
            where p.pronamespace = quote_ident(current_schema())::regnamespace \
                and (p.proname like 'reprieve\\_%' or p.proname in ",
    contract_names!(),
    ") \
                and obj_description(p.oid, 'pg_proc') is null \
        loop \
            execute format('comment on function %s is %L', v_function, 'reprieve: recovers dead letters'); \
        end loop; \
    end $$"
);

impl PostgresStore {
    /// The functions of a contract name that were not made here, with their arguments.
    pub(super) async fn foreign_functions(&self) -> Result<Vec<String>> {
        let rows = self.rows("list its functions", self.query(FOREIGN)).await?;
        Ok(rows.iter().filter_map(|row| get(row, "signature").ok()).collect())
    }
}

/// Drops functions by the signatures that the catalogue gave.
pub(super) async fn drop_foreign(
    transaction: &mut Transaction<'static, Postgres>,
    signatures: &[String],
) -> std::result::Result<(), sqlx::Error> {
    for signature in signatures {
        let statement = format!("drop function if exists {signature}");
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut **transaction).await?;
    }
    Ok(())
}
