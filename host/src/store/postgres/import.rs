//! Importing dead letters: all of them or none.

use std::collections::HashSet;

use jiff::Timestamp;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use super::chunks::chunks;
use super::error::{said, sqlstate};
use super::rows::get;
use super::{PostgresStore, sql_time, text};
use crate::model::json::mend_escapes;
use crate::model::{Disposition, RecoveryStatus};
use crate::store::{Import, Imported, NewDeadLetter, Result, StoreError};

/// Absent columns are filled in from earlier deaths of the same message, else by what the data model says.
pub(crate) const IMPORT: &str = "\
    insert into wh_dead_letters (dead_letter_id, source_table, source_id, stream_id, message_type, destination, \
        perspective_name, envelope, metadata, failure_reason, error_text, attempts_when_dlq, dead_lettered_at, \
        dead_lettered_by, recovery_status, recovery_attempts, last_recovery_at, next_recovery_at, recovered_at, \
        generation, retried_on_generations, operator_disposition, operator_notes, operator_actor, \
        error_fingerprint, error_fingerprint_version, \
        source_row, source_created_at, source_position, incarnation, replay_credit, replay_credit_at, deferral, \
        policy_errors, policy_error_digest, status_note) \
    select i.id, i.source_table, i.source_id, i.stream_id, i.message_type, i.destination, \
        i.perspective_name, i.envelope::jsonb, i.metadata::jsonb, i.failure_reason, i.error_text, \
        i.attempts_when_dlq, i.dead_lettered_at, \
        i.dead_lettered_by, case coalesce(i.status, case when i.recovered_at is null then 0 else 3 end) \
            when 1 then 0 else coalesce(i.status, case when i.recovered_at is null then 0 else 3 end) end, \
        coalesce(i.recovery_attempts, p.recovery_attempts), \
        coalesce(i.last_recovery_at, p.last_recovery_at), i.next_recovery_at, \
        coalesce(i.recovered_at, case when i.status = 3 then coalesce(i.last_recovery_at, i.dead_lettered_at) end), \
        i.generation, \
        case when i.retried is null then reprieve_past_generations(i.source_table, i.source_id) \
            else array(select jsonb_array_elements_text(i.retried::jsonb)) end, \
        coalesce(i.disposition, 0), i.operator_notes, i.operator_actor, \
        i.fingerprint, coalesce(i.fingerprint_version, case when i.fingerprint is not null then 1 end), \
        i.source_row::jsonb, coalesce(i.source_created_at, i.dead_lettered_at), i.source_position, \
        coalesce(i.incarnation, p.incarnation), i.replay_credit, i.replay_credit_at, i.deferral, \
        coalesce(i.policy_errors, 0), i.policy_error_digest, i.status_note \
    from (\
        select u.*, coalesce(u.given_fingerprint, reprieve_error_fingerprint(u.error_text)) as fingerprint, \
            coalesce(u.given_dead_lettered_at, $37) as dead_lettered_at \
        from (\
            select w.*, reprieve_clean_text(w.given_error_text) as error_text \
            from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], \
                $8::text[], $9::text[], $10::integer[], $11::text[], $12::integer[], $13::timestamptz[], \
                $14::uuid[], $15::integer[], $16::integer[], $17::timestamptz[], $18::timestamptz[], \
                $19::timestamptz[], $20::text[], $21::text[], $22::integer[], $23::text[], $24::text[], \
                $25::text[], $26::smallint[], $27::text[], $28::timestamptz[], $29::bigint[], $30::integer[], \
                $31::text[], $32::timestamptz[], $33::text[], $34::integer[], $35::text[], $36::text[]) \
                as w (id, source_table, source_id, stream_id, message_type, destination, perspective_name, \
                    envelope, metadata, failure_reason, given_error_text, attempts_when_dlq, \
                    given_dead_lettered_at, dead_lettered_by, status, recovery_attempts, last_recovery_at, \
                    next_recovery_at, recovered_at, generation, retried, disposition, operator_notes, \
                    operator_actor, given_fingerprint, fingerprint_version, source_row, source_created_at, \
                    source_position, incarnation, replay_credit, replay_credit_at, deferral, policy_errors, \
                    policy_error_digest, status_note)) u) i \
    cross join lateral (\
        select coalesce(max(d.incarnation), 0) + 1 as incarnation, \
            coalesce(max(d.recovery_attempts) filter (where d.generation = i.generation), 0) as recovery_attempts, \
            max(d.last_recovery_at) filter (where d.generation = i.generation) as last_recovery_at \
        from wh_dead_letters d \
        where d.source_table = i.source_table and d.source_id = i.source_id) p \
    on conflict (dead_letter_id) do nothing \
    returning dead_letter_id";

impl PostgresStore {
    pub(super) async fn import_rows(&self, request: &Import<'_>) -> Result<Imported> {
        let action = "import dead letters";
        let now = self.clock(action, request.now).await?;
        let mut transaction = self.begin_transaction(action).await?;
        let mut new: HashSet<Uuid> = HashSet::with_capacity(request.rows.len());
        for chunk in chunks(request.by_death(now)) {
            let query = bind(self.query(IMPORT), &chunk).bind(sql_time(now));
            let rows = match query.fetch_all(&mut *transaction).await {
                Ok(rows) => rows,
                Err(error) if is_of_a_row(&error) => {
                    drop(transaction);
                    return Err(self.bad_row(&chunk, now, &error).await);
                }
                Err(error) => return Err(self.refused(action, error)),
            };
            new.extend(rows.iter().filter_map(|row| get::<Uuid>(row, "dead_letter_id").ok()));
        }
        transaction.commit().await.map_err(|error| self.refused(action, error))?;
        let skipped = request.rows.iter().map(|row| row.dead_letter_id).filter(|id| !new.contains(id)).collect();
        Ok(Imported { imported: u64::try_from(new.len()).unwrap_or(u64::MAX), skipped })
    }

    /// Finds the row of a chunk that the database does not take.
    async fn bad_row(&self, chunk: &[&NewDeadLetter], now: Timestamp, error: &sqlx::Error) -> StoreError {
        let action = "import dead letters";
        let mut transaction = match self.begin_transaction(action).await {
            Ok(transaction) => transaction,
            Err(error) => return error,
        };
        for row in chunk {
            let query = bind(self.query(IMPORT), &[*row]).bind(sql_time(now));
            match query.fetch_all(&mut *transaction).await {
                Ok(_) => {}
                Err(error) if is_of_a_row(&error) => {
                    return StoreError::BadRow { dead_letter_id: row.dead_letter_id, problem: said(&error) };
                }
                Err(error) => return self.refused(action, error),
            }
        }
        StoreError::Invalid(format!("the dead letters cannot be imported: {}", said(error)))
    }
}

/// Whether a row's own content is at fault: its values, the table's rules, or the limits of the database.
fn is_of_a_row(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class)))
}

type Bound = Query<'static, Postgres, PgArguments>;

fn bind(query: Bound, rows: &[&NewDeadLetter]) -> Bound {
    bind_own(bind_state(bind_message(query, rows), rows), rows)
}

/// What died, and why: parameters 1 to 14.
fn bind_message(query: Bound, rows: &[&NewDeadLetter]) -> Bound {
    query
        .bind(column(rows, |row| row.dead_letter_id))
        .bind(column(rows, |row| row.source_table.name()))
        .bind(column(rows, |row| row.source_id))
        .bind(column(rows, |row| row.stream_id))
        .bind(column(rows, |row| text::text(&row.message_type).into_owned()))
        .bind(texts(rows, |row| row.destination.as_deref()))
        .bind(texts(rows, |row| row.perspective_name.as_deref()))
        .bind(column(rows, |row| mend_escapes(row.envelope.get()).into_owned()))
        .bind(column(rows, |row| mend_escapes(row.metadata.get()).into_owned()))
        .bind(column(rows, |row| row.failure_reason.0))
        .bind(texts(rows, |row| row.error_text.as_deref()))
        .bind(column(rows, |row| row.attempts_when_dlq))
        .bind(column(rows, |row| row.dead_lettered_at.map(sql_time)))
        .bind(column(rows, |row| row.dead_lettered_by))
}

/// What became of it: parameters 15 to 26.
fn bind_state(query: Bound, rows: &[&NewDeadLetter]) -> Bound {
    query
        .bind(column(rows, |row| row.recovery_status.map(RecoveryStatus::number)))
        .bind(column(rows, |row| row.recovery_attempts))
        .bind(column(rows, |row| row.last_recovery_at.map(sql_time)))
        .bind(column(rows, |row| row.next_recovery_at.map(sql_time)))
        .bind(column(rows, |row| row.recovered_at.map(sql_time)))
        .bind(column(rows, |row| text::text(&row.generation).into_owned()))
        .bind(column(rows, |row| row.retried_on_generations.as_ref().map(|builds| json_list(builds))))
        .bind(column(rows, |row| row.operator_disposition.map(Disposition::number)))
        .bind(texts(rows, |row| row.operator_notes.as_deref()))
        .bind(texts(rows, |row| row.operator_actor.as_deref()))
        .bind(texts(rows, |row| row.error_fingerprint.as_deref()))
        .bind(column(rows, |row| row.error_fingerprint_version))
}

/// The columns that this project adds: parameters 27 to 36.
fn bind_own(query: Bound, rows: &[&NewDeadLetter]) -> Bound {
    query
        .bind(column(rows, |row| row.source_row.as_ref().map(|json| mend_escapes(json.get()).into_owned())))
        .bind(column(rows, |row| row.source_created_at.map(sql_time)))
        .bind(column(rows, |row| row.source_position))
        .bind(column(rows, |row| row.incarnation))
        .bind(texts(rows, |row| row.replay_credit.as_deref()))
        .bind(column(rows, |row| row.replay_credit_at.map(sql_time)))
        .bind(texts(rows, |row| row.deferral.as_deref()))
        .bind(column(rows, |row| row.policy_errors))
        .bind(texts(rows, |row| row.policy_error_digest.as_deref()))
        .bind(texts(rows, |row| row.status_note.as_deref()))
}

fn column<T>(rows: &[&NewDeadLetter], value: impl Fn(&NewDeadLetter) -> T) -> Vec<T> {
    rows.iter().map(|row| value(row)).collect()
}

fn texts(rows: &[&NewDeadLetter], value: impl Fn(&NewDeadLetter) -> Option<&str>) -> Vec<Option<String>> {
    rows.iter().map(|row| text::optional(value(row)).map(std::borrow::Cow::into_owned)).collect()
}

fn json_list(texts: &[String]) -> String {
    let list: Vec<_> = texts.iter().map(|given| serde_json::Value::from(text::text(given).as_ref())).collect();
    serde_json::Value::from(list).to_string()
}
