//! The functions of the contract, called by nothing but PostgreSQL's own client.
//!
//! The server's time zone is an odd one, and so is that of every session here.

mod draining;
mod fetching;
mod marking;
mod moving;
mod recovering;
mod roles;
mod schemas;
mod settling;
mod signals;
mod signatures;
mod streams;
mod sweeping;
mod transactions;

use crate::harness::rows::event;
use crate::harness::{Psql, id, instance, migrated_database, source, stream};

/// Has a session read and write times as few people do.
const ODD_SETTINGS: &str =
    "set timezone = 'Asia/Kathmandu'; set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard';";

/// A client of a fresh database with the schema.
fn database() -> Psql {
    Psql::new(&migrated_database())
}

/// A message in the outbox, with a column more than ours and values in all of the columns that matter.
fn outbox_message(n: u64) -> String {
    format!(
        "insert into wh_outbox (message_id, destination, message_type, envelope_type, event_data, metadata, scope,
           stream_id, partition_number, is_event, status, attempts, error, instance_id, lease_expiry, failure_reason,
           created_at)
         values ('{}', 'orders', 'OrderPlaced', 'Envelope/1', '{{\"order\": {n}}}', '{{\"tenant\": \"acme\"}}', '{{\"u\": 1}}',
           '0190a000-0000-7000-a000-000000000001', 3, true, 7, 4, 'boom', '0190a000-0000-7000-b000-000000000001',
           '2026-01-01T00:00:00Z', 2, '2025-12-31T23:00:00.123456Z');",
        source(n)
    )
}

/// The call that moves it, under a generation.
fn move_call(n: u64, generation: &str) -> String {
    format!(
        "select move_to_dead_letters('{}', 'wh_outbox', '{}', 8, 'System.TimeoutException: late',
           '0190a000-0000-7000-b000-000000000002', '{generation}');",
        id(n),
        source(n)
    )
}

/// A dead letter that was not moved by a function; more columns with their values may follow.
fn dead_letter(n: u64, columns: &str, values: &str) -> String {
    format!(
        "insert into wh_dead_letters (dead_letter_id, source_table, source_id, message_type, destination, envelope,
           failure_reason, attempts_when_dlq, dead_lettered_at, generation{columns})
         values ('{}', 'wh_outbox', '{}', 'OrderPlaced', 'orders', '{{\"event_data\": {{\"order\": {n}}}, \"metadata\": {{}}}}',
           8, 3, timestamptz '2026-01-01T00:00:00Z' + {n} * interval '1 second', 'g1'{values});",
        id(n),
        source(n)
    )
}

/// One column of a dead letter.
fn column(database: &Psql, n: u64, expression: &str) -> String {
    database.run(&format!("select {expression} from wh_dead_letters where dead_letter_id = '{}';", id(n)))
}

/// Events of the first stream, each with a row for `totals`.
fn perspective_events(numbers: &[u64]) -> String {
    let insert = |n: &u64| {
        let (event, stream, work) = (event(*n), stream(1), source(*n));
        format!(
            "insert into wh_event_store (event_id, stream_id, commit_sequence, event_type, event_data, metadata)
               values ('{event}', '{stream}', {n}, 'OrderPlaced', '{{\"order\": {n}}}', '{{}}');
             insert into wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)
               values ('{work}', '{stream}', 'totals', '{event}');"
        )
    };
    numbers.iter().map(insert).collect()
}

/// The claim of the first stream by an instance.
fn get_stream_events(who: u64, now: &str) -> String {
    let (instance, stream) = (instance(who), stream(1));
    format!("select event_work_id, attempts from get_stream_events('{instance}', array['{stream}'::uuid], {now});")
}
