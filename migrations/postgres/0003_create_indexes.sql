-- One statement per line group, each run by itself: an index that exists and is valid is left alone.

-- Open rows in the order in which they fall due.
create index concurrently if not exists wh_dead_letters_due_idx on wh_dead_letters
    ((coalesce(next_recovery_at, dead_lettered_at)), dead_lettered_at, dead_letter_id)
    where recovered_at is null and recovery_status not in (2, 3, 4) and operator_disposition not in (2, 3);

-- The siblings of a stream that are still open.
create index concurrently if not exists wh_dead_letters_stream_idx on wh_dead_letters
    (source_table, stream_id, perspective_name)
    where recovered_at is null and recovery_status not in (3, 4) and stream_id is not null;

-- The deaths of one message.
create index concurrently if not exists wh_dead_letters_source_idx on wh_dead_letters
    (source_table, source_id, incarnation);

-- Rows that died of the same error and are not settled. A settled row would cost every recovery another entry.
create index concurrently if not exists wh_dead_letters_fingerprint_idx on wh_dead_letters
    (error_fingerprint)
    where recovered_at is null and error_fingerprint is not null;

-- What is open, held or given up, for listings and for the sweep.
create index concurrently if not exists wh_dead_letters_unsettled_idx on wh_dead_letters
    (dead_lettered_at, dead_letter_id)
    where recovered_at is null;

-- Rows that a new policy makes due at once.
create index concurrently if not exists wh_dead_letters_deferral_idx on wh_dead_letters
    (dead_letter_id)
    where deferral in ('skip', 'policy-error');

-- Rows whose retry an application asked for by SQL.
create index concurrently if not exists wh_dead_letters_retry_now_idx on wh_dead_letters
    (dead_letter_id)
    where operator_disposition = 1 and recovered_at is null;

-- What was decided about a row.
create index concurrently if not exists wh_dead_letter_decisions_row_idx on wh_dead_letter_decisions
    (dead_letter_id, decided_at);
