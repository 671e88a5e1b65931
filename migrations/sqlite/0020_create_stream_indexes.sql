-- The open rows of a stream in the order of the stream: with its position a row stands before all that have none.
drop index if exists wh_dead_letters_stream;
create index if not exists wh_dead_letters_stream_order
    on wh_dead_letters (
        case when stream_id is null or stream_id = '00000000-0000-0000-0000-000000000000' then null
            when source_table = 'wh_perspective_events'
            then source_table || '|' || stream_id || '|' || coalesce(perspective_name, '')
            else source_table || '|' || stream_id end,
        coalesce(source_position, 9223372036854775807), coalesce(source_created_at, dead_lettered_at), source_id,
        dead_letter_id)
    where recovery_status < 2 and operator_disposition < 2 and stream_id is not null;

-- The held rows of a stream in the same order.
create index if not exists wh_dead_letters_stream_held
    on wh_dead_letters (
        case when stream_id is null or stream_id = '00000000-0000-0000-0000-000000000000' then null
            when source_table = 'wh_perspective_events'
            then source_table || '|' || stream_id || '|' || coalesce(perspective_name, '')
            else source_table || '|' || stream_id end,
        coalesce(source_position, 9223372036854775807), coalesce(source_created_at, dead_lettered_at), source_id,
        dead_letter_id)
    where recovery_status < 3 and operator_disposition <> 3 and (recovery_status = 2 or operator_disposition = 2)
        and stream_id is not null;

-- The rows of a stream that wait for an earlier one, in the same order.
create index if not exists wh_dead_letters_stream_waits
    on wh_dead_letters (
        case when stream_id is null or stream_id = '00000000-0000-0000-0000-000000000000' then null
            when source_table = 'wh_perspective_events'
            then source_table || '|' || stream_id || '|' || coalesce(perspective_name, '')
            else source_table || '|' || stream_id end,
        coalesce(source_position, 9223372036854775807), coalesce(source_created_at, dead_lettered_at), source_id,
        dead_letter_id)
    where deferral = 'stream';
