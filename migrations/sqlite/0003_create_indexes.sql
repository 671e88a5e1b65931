-- One index for each question that is asked often.

-- Claims: the open rows in the order in which they fall due.
create index if not exists wh_dead_letters_due
    on wh_dead_letters (coalesce(next_recovery_at, dead_lettered_at), dead_lettered_at, dead_letter_id)
    where recovery_status < 2 and operator_disposition < 2;

-- Inheritance: every death of a message.
create index if not exists wh_dead_letters_source on wh_dead_letters (source_table, source_id);

-- Statistics: rows with the same fault.
create index if not exists wh_dead_letters_fingerprint
    on wh_dead_letters (error_fingerprint)
    where error_fingerprint is not null;

-- Listings: every row by age; those not recovered alone, which listings of held and failed rows and sweeps read.
create index if not exists wh_dead_letters_age on wh_dead_letters (dead_lettered_at, dead_letter_id);
create index if not exists wh_dead_letters_unrecovered
    on wh_dead_letters (dead_lettered_at, dead_letter_id)
    where recovery_status <> 3;

-- Retries that applications asked for by SQL.
create index if not exists wh_dead_letters_retry_now
    on wh_dead_letters (dead_letter_id)
    where operator_disposition = 1;

-- The history of a row.
create index if not exists wh_dead_letter_decisions_row on wh_dead_letter_decisions (dead_letter_id, decided_at);

-- Rows that a new policy makes due.
create index if not exists wh_dead_letters_deferral
    on wh_dead_letters (dead_letter_id)
    where deferral in ('skip', 'policy-error');

-- The open rows of a stream in the order of the stream: with its position a row stands before all that have none.
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

-- The open rows of a stream.
create index if not exists wh_perspective_events_open
    on wh_perspective_events (stream_id, perspective_name)
    where processed_at is null;

-- What instances hold, for whoever looks for the dead ones among them.
create index if not exists wh_perspective_events_owner
    on wh_perspective_events (instance_id, lease_expiry)
    where processed_at is null and instance_id is not null;
