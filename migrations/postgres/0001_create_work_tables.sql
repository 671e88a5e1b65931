-- The tables that messages die in and return to. Where the application's own migrations made them already, only
-- columns that can be added without rewriting the table are added.

create table if not exists wh_outbox (
    message_id uuid primary key,
    destination text,
    message_type text not null,
    envelope_type text,
    event_data jsonb not null,
    metadata jsonb not null,
    scope jsonb,
    stream_id uuid,
    partition_number integer,
    is_event boolean not null default false,
    status integer not null default 1,
    attempts integer not null default 0,
    error text,
    instance_id uuid,
    lease_expiry timestamptz,
    failure_reason integer not null default 99,
    scheduled_for timestamptz,
    created_at timestamptz not null default now(),
    published_at timestamptz,
    processed_at timestamptz
);

create table if not exists wh_inbox (
    message_id uuid primary key,
    handler_name text not null,
    message_type text not null,
    envelope_type text,
    event_data jsonb not null,
    metadata jsonb not null,
    scope jsonb,
    stream_id uuid,
    partition_number integer,
    is_event boolean not null default false,
    status integer not null default 1,
    attempts integer not null default 0,
    error text,
    instance_id uuid,
    lease_expiry timestamptz,
    failure_reason integer not null default 99,
    scheduled_for timestamptz,
    processed_at timestamptz,
    received_at timestamptz not null default now()
);

create table if not exists wh_perspective_events (
    event_work_id uuid primary key,
    stream_id uuid not null,
    perspective_name text not null,
    event_id uuid not null,
    instance_id uuid,
    lease_expiry timestamptz,
    status integer not null default 0,
    attempts integer not null default 0,
    error text,
    failure_reason integer,
    partition_number integer,
    created_at timestamptz not null default now(),
    claimed_at timestamptz,
    processed_at timestamptz,
    scheduled_for timestamptz,
    unique (stream_id, perspective_name, event_id)
);

create table if not exists wh_event_store (
    event_id uuid primary key,
    stream_id uuid not null,
    commit_sequence bigint,
    event_type text not null,
    event_data jsonb not null,
    metadata jsonb not null,
    created_at timestamptz not null default now()
);

create table if not exists wh_service_instances (
    instance_id uuid primary key,
    service_name text not null,
    host_name text not null,
    process_id integer not null,
    started_at timestamptz not null,
    last_heartbeat_at timestamptz not null,
    metadata jsonb
);

-- Asking the catalogue first spares a table that lacks nothing the exclusive lock of an `alter table`.
do $$
declare
    v_column record;
begin
    for v_column in
        select w.table_name, w.column_name, w.definition
        from (values
            ('wh_outbox', 'destination', 'text'),
            ('wh_outbox', 'envelope_type', 'text'),
            ('wh_outbox', 'scope', 'jsonb'),
            ('wh_outbox', 'stream_id', 'uuid'),
            ('wh_outbox', 'partition_number', 'integer'),
            ('wh_outbox', 'is_event', 'boolean not null default false'),
            ('wh_outbox', 'status', 'integer not null default 1'),
            ('wh_outbox', 'attempts', 'integer not null default 0'),
            ('wh_outbox', 'error', 'text'),
            ('wh_outbox', 'instance_id', 'uuid'),
            ('wh_outbox', 'lease_expiry', 'timestamptz'),
            ('wh_outbox', 'failure_reason', 'integer not null default 99'),
            ('wh_outbox', 'scheduled_for', 'timestamptz'),
            ('wh_outbox', 'created_at', 'timestamptz not null default now()'),
            ('wh_outbox', 'published_at', 'timestamptz'),
            ('wh_outbox', 'processed_at', 'timestamptz'),
            ('wh_inbox', 'envelope_type', 'text'),
            ('wh_inbox', 'scope', 'jsonb'),
            ('wh_inbox', 'stream_id', 'uuid'),
            ('wh_inbox', 'partition_number', 'integer'),
            ('wh_inbox', 'is_event', 'boolean not null default false'),
            ('wh_inbox', 'status', 'integer not null default 1'),
            ('wh_inbox', 'attempts', 'integer not null default 0'),
            ('wh_inbox', 'error', 'text'),
            ('wh_inbox', 'instance_id', 'uuid'),
            ('wh_inbox', 'lease_expiry', 'timestamptz'),
            ('wh_inbox', 'failure_reason', 'integer not null default 99'),
            ('wh_inbox', 'scheduled_for', 'timestamptz'),
            ('wh_inbox', 'processed_at', 'timestamptz'),
            ('wh_inbox', 'received_at', 'timestamptz not null default now()'),
            ('wh_perspective_events', 'instance_id', 'uuid'),
            ('wh_perspective_events', 'lease_expiry', 'timestamptz'),
            ('wh_perspective_events', 'status', 'integer not null default 0'),
            ('wh_perspective_events', 'attempts', 'integer not null default 0'),
            ('wh_perspective_events', 'error', 'text'),
            ('wh_perspective_events', 'failure_reason', 'integer'),
            ('wh_perspective_events', 'partition_number', 'integer'),
            ('wh_perspective_events', 'created_at', 'timestamptz not null default now()'),
            ('wh_perspective_events', 'claimed_at', 'timestamptz'),
            ('wh_perspective_events', 'processed_at', 'timestamptz'),
            ('wh_perspective_events', 'scheduled_for', 'timestamptz'),
            ('wh_event_store', 'commit_sequence', 'bigint'),
            ('wh_event_store', 'created_at', 'timestamptz not null default now()'),
            ('wh_service_instances', 'metadata', 'jsonb')
        ) as w (table_name, column_name, definition)
        where not exists (
            select from pg_catalog.pg_attribute a
            where a.attrelid = to_regclass(w.table_name) and a.attname = w.column_name and not a.attisdropped)
    loop
        execute format('alter table %I add column if not exists %I %s',
            v_column.table_name, v_column.column_name, v_column.definition);
    end loop;
end
$$;
