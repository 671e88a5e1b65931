-- One statement per line group, each run by itself: an index that exists and is valid is left alone.

-- Open rows in the order in which they fall due.
create index concurrently if not exists wh_dead_letters_due_idx on wh_dead_letters
    ((coalesce(next_recovery_at, dead_lettered_at)), dead_lettered_at, dead_letter_id)
    where recovered_at is null and recovery_status not in (2, 3, 4) and operator_disposition not in (2, 3);

-- The deaths of one message.
create index concurrently if not exists wh_dead_letters_source_idx on wh_dead_letters
    (source_table, source_id, incarnation);

-- Deaths that are not a message's first. Claiming and settling look here for a newer death of each row that they have
-- in hand, and mostly find an index with nothing in it.
create index concurrently if not exists wh_dead_letters_incarnation_idx on wh_dead_letters
    (source_table, source_id, incarnation)
    where incarnation > 1;

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

-- The open rows of a stream in the order of the stream: with its position a row stands before all that have none.
create index concurrently if not exists wh_dead_letters_stream_order_idx on wh_dead_letters
    ((reprieve_stream_key(source_table, stream_id, perspective_name)), (coalesce(source_position, 9223372036854775807)),
        (coalesce(source_created_at, dead_lettered_at)), source_id, dead_letter_id)
    where recovered_at is null and recovery_status not in (2, 3, 4) and operator_disposition not in (2, 3)
        and stream_id is not null;

-- The held rows of a stream in the same order.
create index concurrently if not exists wh_dead_letters_stream_held_idx on wh_dead_letters
    ((reprieve_stream_key(source_table, stream_id, perspective_name)), (coalesce(source_position, 9223372036854775807)),
        (coalesce(source_created_at, dead_lettered_at)), source_id, dead_letter_id)
    where recovered_at is null and recovery_status not in (3, 4) and operator_disposition <> 3
        and (recovery_status = 2 or operator_disposition = 2) and stream_id is not null;

-- The rows of a stream that wait for an earlier one, in the same order.
create index concurrently if not exists wh_dead_letters_stream_waits_idx on wh_dead_letters
    ((reprieve_stream_key(source_table, stream_id, perspective_name)), (coalesce(source_position, 9223372036854775807)),
        (coalesce(source_created_at, dead_lettered_at)), source_id, dead_letter_id)
    where deferral = 'stream';

-- The open rows of a stream.
create index concurrently if not exists wh_perspective_events_open_idx on wh_perspective_events
    (stream_id, perspective_name)
    where processed_at is null;

-- What instances hold, for whoever looks for the dead ones among them.
create index concurrently if not exists wh_perspective_events_owner_idx on wh_perspective_events
    (instance_id, lease_expiry)
    where processed_at is null and instance_id is not null;
