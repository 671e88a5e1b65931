-- Dead letters, the batches that hosts work on, and what was decided.

create table if not exists wh_dead_letters (
    dead_letter_id uuid primary key,
    source_table text not null,
    source_id uuid not null,
    stream_id uuid,
    message_type text not null,
    destination text,
    perspective_name text,
    envelope jsonb not null,
    metadata jsonb not null default '{}',
    failure_reason integer not null,
    error_text text,
    attempts_when_dlq integer not null,
    dead_lettered_at timestamptz not null default now(),
    dead_lettered_by uuid,
    recovery_status integer not null default 0,
    recovery_attempts integer not null default 0,
    last_recovery_at timestamptz,
    next_recovery_at timestamptz,
    recovered_at timestamptz,
    generation text not null,
    retried_on_generations text[] not null default '{}',
    operator_disposition integer not null default 0,
    operator_notes text,
    operator_actor text,
    error_fingerprint varchar(16),
    error_fingerprint_version smallint
);

create table if not exists wh_recovery_batches (
    batch_id uuid primary key,
    owner uuid not null,
    generation text not null,
    phase text not null,
    ids uuid[] not null,
    streams text[] not null default '{}',
    started_at timestamptz not null,
    expires_at timestamptz not null,
    constraint wh_recovery_batches_phase_check check (phase in ('deciding', 'recovering'))
)
-- A batch of 200 is longer than a row from which values are compressed and kept elsewhere: each claim reads them all.
with (toast_tuple_target = 8160);

create table if not exists wh_dead_letter_decisions (
    decision_id uuid primary key default gen_random_uuid(),
    dead_letter_id uuid not null,
    decided_at timestamptz not null,
    decision text not null,
    policy_name text,
    policy_digest text,
    attempt integer,
    rule jsonb,
    inputs jsonb,
    note text
);

do $$
declare
    v_column record;
begin
    for v_column in
        select w.column_name, w.definition
        from (values
            ('stream_id', 'uuid'),
            ('destination', 'text'),
            ('perspective_name', 'text'),
            ('metadata', 'jsonb not null default ''{}'''),
            ('error_text', 'text'),
            ('dead_lettered_at', 'timestamptz not null default now()'),
            ('dead_lettered_by', 'uuid'),
            ('recovery_status', 'integer not null default 0'),
            ('recovery_attempts', 'integer not null default 0'),
            ('last_recovery_at', 'timestamptz'),
            ('next_recovery_at', 'timestamptz'),
            ('recovered_at', 'timestamptz'),
            ('retried_on_generations', 'text[] not null default ''{}'''),
            ('operator_disposition', 'integer not null default 0'),
            ('operator_notes', 'text'),
            ('operator_actor', 'text'),
            ('error_fingerprint', 'varchar(16)'),
            ('error_fingerprint_version', 'smallint'),
            ('source_row', 'jsonb'),
            ('source_created_at', 'timestamptz'),
            ('source_position', 'bigint'),
            ('incarnation', 'integer not null default 1'),
            ('replay_credit', 'text'),
            ('replay_credit_at', 'timestamptz'),
            ('deferral', 'text'),
            ('policy_errors', 'integer not null default 0'),
            ('policy_error_digest', 'text'),
            ('status_note', 'text')
        ) as w (column_name, definition)
        where not exists (
            select from pg_catalog.pg_attribute a
            where a.attrelid = to_regclass('wh_dead_letters') and a.attname = w.column_name and not a.attisdropped)
    loop
        execute format('alter table wh_dead_letters add column if not exists %I %s',
            v_column.column_name, v_column.definition);
    end loop;
end
$$;

-- Tells the planner how many rows are due: without it, it takes a third of the table and reads all that cool down.
create statistics if not exists wh_dead_letters_due_stats on (coalesce(next_recovery_at, dead_lettered_at))
    from wh_dead_letters;
