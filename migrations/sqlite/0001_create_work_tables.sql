-- The tables that messages live in. An application may have made them already; then only missing columns are added.
-- UUIDs are lower-case hyphenated text, times RFC 3339 in UTC with six decimals, JSON is text, booleans are 0 and 1.

create table if not exists wh_outbox (
    message_id       text not null primary key,
    destination      text,
    message_type     text not null,
    envelope_type    text,
    event_data       text not null,
    metadata         text not null,
    scope            text,
    stream_id        text,
    partition_number integer,
    is_event         integer not null default 0,
    status           integer not null default 1,
    attempts         integer not null default 0,
    error            text,
    instance_id      text,
    lease_expiry     text,
    failure_reason   integer not null default 99,
    scheduled_for    text,
    created_at       text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    published_at     text,
    processed_at     text
);

create table if not exists wh_inbox (
    message_id       text not null primary key,
    handler_name     text not null,
    message_type     text not null,
    envelope_type    text,
    event_data       text not null,
    metadata         text not null,
    scope            text,
    stream_id        text,
    partition_number integer,
    is_event         integer not null default 0,
    status           integer not null default 1,
    attempts         integer not null default 0,
    error            text,
    instance_id      text,
    lease_expiry     text,
    failure_reason   integer not null default 99,
    scheduled_for    text,
    processed_at     text,
    received_at      text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))
);

create table if not exists wh_perspective_events (
    event_work_id    text not null primary key,
    stream_id        text not null,
    perspective_name text not null,
    event_id         text not null,
    instance_id      text,
    lease_expiry     text,
    status           integer not null default 0,
    attempts         integer not null default 0,
    error            text,
    failure_reason   integer,
    partition_number integer,
    created_at       text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    claimed_at       text,
    processed_at     text,
    scheduled_for    text,
    unique (stream_id, perspective_name, event_id)
);

create table if not exists wh_event_store (
    event_id        text not null primary key,
    stream_id       text not null,
    commit_sequence integer,
    event_type      text not null,
    event_data      text not null,
    metadata        text not null,
    created_at      text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))
);

create table if not exists wh_service_instances (
    instance_id       text not null primary key,
    service_name      text not null,
    host_name         text not null,
    process_id        integer not null,
    started_at        text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    last_heartbeat_at text not null default (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')),
    metadata          text
);
