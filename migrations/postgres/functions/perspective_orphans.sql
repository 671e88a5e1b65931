-- Taking over what dead instances hold.

-- Lapsed rows of instances that are not registered or have been silent for five minutes. One that stands behind a row
-- which an instance other than the caller still holds stays; in order, also what must not be applied yet.
create or replace function reprieve_orphans(
    p_instance_id uuid, p_stream_ids uuid[], p_perspective_names text[], p_max integer, p_in_order boolean,
    p_now timestamptz
) returns table (event_work_id uuid, stream_id uuid, perspective_name text)
language plpgsql stable security invoker set search_path from current as $$
#variable_conflict use_column
begin
    return query
    select o.event_work_id, o.stream_id, o.perspective_name::text
    from (
        select w.event_work_id, w.stream_id, w.perspective_name, w.event_id,
            coalesce(e.commit_sequence, 9223372036854775807) as place,
            w.instance_id <> p_instance_id
                and (w.lease_expiry is null or w.lease_expiry <= p_now)
                and (w.scheduled_for is null or w.scheduled_for <= p_now)
                and w.instance_id not in (
                    select i.instance_id from wh_service_instances i
                    where i.last_heartbeat_at >= p_now - interval '5 minutes') as orphaned,
            bool_or(w.instance_id <> p_instance_id and w.lease_expiry > p_now
                or p_in_order and e.event_id is not null and (w.scheduled_for > p_now or w.error is not null)) over (
                partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id
                rows between unbounded preceding and 1 preceding) as stopped,
            row_number() over (partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id) as nth,
            min(case when p_in_order and e.event_id is not null then reprieve_company(w.attempts) end) over (
                partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id
                rows between unbounded preceding and current row) as company
        from wh_perspective_events w
        left join wh_event_store e on e.event_id = w.event_id
        where w.processed_at is null
            and w.stream_id in (
                select d.stream_id from wh_perspective_events d
                where d.processed_at is null and d.instance_id is not null and d.instance_id <> p_instance_id
                    and (d.lease_expiry is null or d.lease_expiry <= p_now))
            and (p_stream_ids is null or (w.stream_id, w.perspective_name) in (
                select * from unnest(p_stream_ids, p_perspective_names)))
    ) o
    where o.orphaned and o.stopped is not true and (o.nth = 1 or o.nth <= coalesce(o.company, o.nth))
    order by o.stream_id, o.perspective_name, o.place, o.event_id
    limit p_max;
end
$$;

create or replace function reprieve_claim_orphans(
    p_instance_id uuid, p_max integer, p_in_order boolean, p_lease_seconds double precision, p_now timestamptz
) returns table (event_work_id uuid, stream_id uuid, perspective_name text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_streams uuid[];
    v_names text[];
    v_ids uuid[];
begin
    perform reprieve_require_instance(p_instance_id);
    perform reprieve_require_lease(p_lease_seconds);
    if p_max is null or p_max < 0 then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('p_max is %s', coalesce(p_max::text, 'NULL')),
            hint = 'expected the most rows to take over, 0 or more';
    end if;
    select coalesce(array_agg(p.stream_id), '{}'), coalesce(array_agg(p.perspective_name), '{}')
    into v_streams, v_names
    from (
        select distinct o.stream_id, o.perspective_name
        from reprieve_orphans(p_instance_id, null, null, p_max, p_in_order, v_now) o
    ) p
    where pg_try_advisory_xact_lock_shared(reprieve_stream_lock(p.stream_id, null))
        and pg_try_advisory_xact_lock(reprieve_stream_lock(p.stream_id, p.perspective_name));
    select array_agg(l.event_work_id) into v_ids
    from (
        select w.event_work_id
        from reprieve_orphans(p_instance_id, v_streams, v_names, p_max, p_in_order, v_now) o
        join wh_perspective_events w on w.event_work_id = o.event_work_id
        order by w.event_work_id
        for update of w skip locked
    ) l;
    update wh_perspective_events w
    set attempts = least(w.attempts::bigint + 1, 2147483647)::integer,
        claimed_at = v_now,
        instance_id = p_instance_id,
        lease_expiry = v_now + make_interval(secs => p_lease_seconds)
    where w.event_work_id = any (v_ids);

    return query
    select w.event_work_id, w.stream_id, w.perspective_name::text
    from wh_perspective_events w
    left join wh_event_store e on e.event_id = w.event_id
    where w.event_work_id = any (v_ids)
    order by w.stream_id, w.perspective_name, e.commit_sequence nulls last, w.event_id;
end
$$;

create or replace function claim_orphaned_perspective_events(
    p_instance_id uuid, p_max integer, p_now timestamptz default null, p_lease_seconds integer default 300
) returns table (event_work_id uuid, stream_id uuid, perspective_name text)
language plpgsql volatile security invoker set search_path from current as $$
begin
    return query
    select c.event_work_id, c.stream_id, c.perspective_name
    from reprieve_claim_orphans(p_instance_id, p_max, false, coalesce(p_lease_seconds, 300), p_now) c;
end
$$;
