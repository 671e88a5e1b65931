-- One statement per line group, each run by itself: an index that exists and is valid is left alone.

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
