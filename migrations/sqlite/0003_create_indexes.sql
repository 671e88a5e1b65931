-- One index for each question that is asked often.

-- Claims: the open rows in the order in which they fall due.
create index if not exists wh_dead_letters_due
    on wh_dead_letters (coalesce(next_recovery_at, dead_lettered_at), dead_lettered_at, dead_letter_id)
    where recovery_status < 2 and operator_disposition < 2;

-- Siblings: the open rows of a stream.
create index if not exists wh_dead_letters_stream
    on wh_dead_letters (source_table, stream_id)
    where recovery_status < 2 and operator_disposition < 2 and stream_id is not null;

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
