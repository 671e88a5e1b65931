-- The open rows of a stream.
create index if not exists wh_perspective_events_open
    on wh_perspective_events (stream_id, perspective_name)
    where processed_at is null;

-- What instances hold, for whoever looks for the dead ones among them.
create index if not exists wh_perspective_events_owner
    on wh_perspective_events (instance_id, lease_expiry)
    where processed_at is null and instance_id is not null;
