-- The dead letters, who is working on them, and what was decided. The large columns stand last, so that reading the
-- others does not walk through the pages of a body.

create table if not exists wh_dead_letters (
    dead_letter_id            text not null primary key,
    source_table              text not null check (source_table in ('wh_outbox', 'wh_inbox', 'wh_perspective_events')),
    source_id                 text not null,
    stream_id                 text,
    message_type              text not null,
    destination               text,
    perspective_name          text,
    failure_reason            integer not null,
    attempts_when_dlq         integer not null default 0 check (attempts_when_dlq >= 0),
    dead_lettered_at          text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    dead_lettered_by          text,
    recovery_status           integer not null default 0 check (recovery_status between 0 and 4),
    recovery_attempts         integer not null default 0 check (recovery_attempts >= 0),
    last_recovery_at          text,
    next_recovery_at          text,
    recovered_at              text,
    generation                text not null,
    retried_on_generations    text not null default '[]',
    operator_disposition      integer not null default 0,
    operator_notes            text,
    operator_actor            text,
    error_fingerprint         text,
    error_fingerprint_version integer,
    source_created_at         text,
    source_position           integer,
    incarnation               integer not null default 1,
    replay_credit             text,
    replay_credit_at          text,
    deferral                  text,
    policy_errors             integer not null default 0,
    policy_error_digest       text,
    status_note               text,
    error_text                text,
    metadata                  text not null default '{}',
    source_row                text,
    envelope                  text not null,
    check ((recovery_status = 3) = (recovered_at is not null))
);

create table if not exists wh_recovery_batches (
    batch_id   text not null primary key,
    owner      text not null,
    generation text not null,
    phase      text not null check (phase in ('deciding', 'recovering')),
    ids        text not null check (json_valid(ids)),
    streams    text not null check (json_valid(streams)),
    started_at text not null,
    expires_at text not null
);

create table if not exists wh_dead_letter_decisions (
    decision_id    text not null primary key,
    dead_letter_id text not null,
    decided_at     text not null,
    decision       text not null,
    policy_name    text,
    policy_digest  text,
    attempt        integer,
    rule           text,
    inputs         text,
    note           text
);
