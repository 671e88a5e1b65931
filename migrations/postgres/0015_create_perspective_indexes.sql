-- One statement per line group, each run by itself: an index that exists and is valid is left alone.

-- The open rows of a stream.
create index concurrently if not exists wh_perspective_events_open_idx on wh_perspective_events
    (stream_id, perspective_name)
    where processed_at is null;

-- What instances hold, for whoever looks for the dead ones among them.
create index concurrently if not exists wh_perspective_events_owner_idx on wh_perspective_events
    (instance_id, lease_expiry)
    where processed_at is null and instance_id is not null;
