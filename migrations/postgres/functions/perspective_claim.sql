-- Read models: claiming the events that they are fed with. A row is *owned* by the instance in instance_id, and
-- *leased* to it until lease_expiry. Attempts count the changes of the owner, here alone.

create or replace function reprieve_require_instance(p_instance_id uuid) returns void
language plpgsql stable security invoker set search_path from current as $$
begin
    if p_instance_id is null then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = 'p_instance_id is NULL',
            hint = 'expected the id of the instance that claims, the same in all its calls';
    end if;
end
$$;

create or replace function reprieve_require_lease(p_lease_seconds double precision) returns void
language plpgsql stable security invoker set search_path from current as $$
begin
    if p_lease_seconds is null or p_lease_seconds <= 0 then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('p_lease_seconds is %s', coalesce(p_lease_seconds::text, 'NULL')),
            hint = 'expected a number of seconds above 0';
    end if;
end
$$;

-- What one claim of a stream excludes another of it by. Claims of single perspectives share the stream. Streams share a
-- thousand locks: one for each would fill the server's table of locks, and other sessions would find no room there.
create or replace function reprieve_stream_lock(p_stream_id uuid, p_perspective_name text) returns bigint
language plpgsql stable security invoker set search_path from current as $$
begin
    return hashtextextended(
        concat_ws('|', 'reprieve events', current_schema(), p_perspective_name is null,
            hashtextextended(concat_ws('|', p_stream_id, p_perspective_name), 0) & 1023), 0);
end
$$;

-- How many rows of a stream and perspective a claim takes at most that goes as far as a row with so many attempts. One
-- that was claimed three times in vain may be what ends its claimers, and those claimed with it spend their attempts on
-- its account: so fewer come with each further attempt, in the end it alone.
create or replace function reprieve_company(p_attempts integer) returns integer
language plpgsql immutable security invoker set search_path from current as $$
begin
    return case when p_attempts < 3 then 2147483647 else (array[256, 64, 16, 4, 1])[least(p_attempts - 2, 5)] end;
end
$$;

-- Those of the streams that no other claim is just working on. Nothing waits here, so nothing can deadlock.
create or replace function reprieve_lock_streams(p_stream_ids uuid[], p_perspective_name text) returns uuid[]
language plpgsql volatile security invoker set search_path from current as $$
begin
    return array(
        select s.id
        from (select distinct u.id from unnest(p_stream_ids) as u (id) where u.id is not null) s
        where case when p_perspective_name is null
            then pg_try_advisory_xact_lock(reprieve_stream_lock(s.id, null))
            else pg_try_advisory_xact_lock_shared(reprieve_stream_lock(s.id, null))
                and pg_try_advisory_xact_lock(reprieve_stream_lock(s.id, p_perspective_name)) end);
end
$$;

-- Of the rows that a claim could lock, those that may be applied now: nothing behind an open row of the same stream and
-- perspective that was not locked, is not due or has failed, and in the company that reprieve_company allows. A row
-- whose event is gone stops none. The settings keep the planner from comparing each row with each of the claim;
-- events are looked up one by one all the same.
create or replace function reprieve_in_order(
    p_stream_ids uuid[], p_perspective_name text, p_ids uuid[], p_taken boolean[]
) returns table (event_work_id uuid, taken boolean)
language plpgsql stable security invoker
set search_path from current set enable_nestloop = off set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select o.event_work_id, o.taken
    from (
        select w.event_work_id, c.taken, c.id is not null as locked,
            bool_or(e.event_id is not null and (c.id is null or w.error is not null)) over earlier as stopped,
            row_number() over (partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id) as place,
            min(case when e.event_id is not null then reprieve_company(w.attempts) end) over up_to_here as company
        from wh_perspective_events w
        left join unnest(p_ids, p_taken) as c (id, taken) on c.id = w.event_work_id
        left join lateral (
            select s.event_id, s.commit_sequence from wh_event_store s where s.event_id = w.event_id offset 0
        ) e on true
        where w.stream_id = any (p_stream_ids) and w.processed_at is null
            and (p_perspective_name is null or w.perspective_name = p_perspective_name)
        window earlier as (partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id
                rows between unbounded preceding and 1 preceding),
            up_to_here as (partition by w.stream_id, w.perspective_name
                order by coalesce(e.commit_sequence, 9223372036854775807), w.event_id
                rows between unbounded preceding and current row)
    ) o
    where o.locked and o.stopped is not true and (o.place = 1 or o.place <= coalesce(o.company, o.place));
end
$$;

-- Claims rows of streams, of all perspectives or of one. The locks come first; the statements after them have snapshots
-- of their own, which see the leases that a claim before committed.
create or replace function reprieve_claim_events(
    p_instance_id uuid,
    p_stream_ids uuid[],
    p_perspective_name text,
    p_in_order boolean,
    p_lease_seconds double precision,
    p_now timestamptz
) returns table (
    stream_id uuid, event_id uuid, event_work_id uuid, perspective_name text, event_type text, event_data jsonb,
    metadata jsonb, commit_sequence bigint, attempts integer, claimed_at timestamptz, taken_over boolean)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_streams uuid[] := reprieve_lock_streams(p_stream_ids, p_perspective_name);
    v_ids uuid[];
    v_taken boolean[];
begin
    perform reprieve_require_instance(p_instance_id);
    perform reprieve_require_lease(p_lease_seconds);
    v_streams := array(
        select s.id from unnest(v_streams) as s (id)
        where not exists (
            select from wh_perspective_events o
            where o.stream_id = s.id and o.processed_at is null and o.instance_id <> p_instance_id
                and o.lease_expiry > v_now
                and (p_perspective_name is null or o.perspective_name = p_perspective_name)));
    select coalesce(array_agg(l.event_work_id), '{}'), coalesce(array_agg(l.taken), '{}') into v_ids, v_taken
    from (
        select w.event_work_id, w.instance_id is distinct from p_instance_id as taken
        from wh_perspective_events w
        where w.stream_id = any (v_streams) and w.processed_at is null
            and (p_perspective_name is null or w.perspective_name = p_perspective_name)
            and (w.scheduled_for is null or w.scheduled_for <= v_now)
            and (w.instance_id is null or w.instance_id = p_instance_id
                or w.lease_expiry is null or w.lease_expiry <= v_now)
        order by w.event_work_id
        for update skip locked
    ) l;
    if p_in_order then
        select coalesce(array_agg(o.event_work_id), '{}'), coalesce(array_agg(o.taken), '{}') into v_ids, v_taken
        from reprieve_in_order(v_streams, p_perspective_name, v_ids, v_taken) o;
    end if;
    update wh_perspective_events w
    set attempts = least(w.attempts::bigint + c.taken::integer, 2147483647)::integer,
        claimed_at = case when c.taken then v_now else w.claimed_at end,
        instance_id = p_instance_id,
        lease_expiry = v_now + make_interval(secs => p_lease_seconds)
    from unnest(v_ids, v_taken) as c (id, taken)
    where w.event_work_id = c.id;

    -- Each row is found by its key: no plan can compare all that was claimed with all that the instance holds.
    return query
    with claimed as materialized (
        select c.id, bool_or(c.taken) as taken
        from (
            select u.id, u.taken from unnest(v_ids, v_taken) as u (id, taken)
            union all
            select w.event_work_id, false
            from wh_perspective_events w
            where not p_in_order and w.stream_id = any (p_stream_ids) and w.processed_at is null
                and (p_perspective_name is null or w.perspective_name = p_perspective_name)
                and w.instance_id = p_instance_id and w.lease_expiry > v_now
        ) c
        group by c.id
    )
    select w.stream_id, w.event_id, w.event_work_id, w.perspective_name::text, e.event_type::text, e.event_data::jsonb,
        e.metadata::jsonb, e.commit_sequence::bigint, w.attempts, w.claimed_at, c.taken
    from claimed c
    join wh_perspective_events w on w.event_work_id = c.id
    left join wh_event_store e on e.event_id = w.event_id
    order by w.stream_id, e.commit_sequence nulls last, w.event_id, w.perspective_name;
end
$$;

-- The contract with applications. A row whose event is no longer in wh_event_store comes with NULL for it.
create or replace function get_stream_events(
    p_instance_id uuid, p_stream_ids uuid[], p_now timestamptz, p_lease_seconds integer default 300
) returns table (
    stream_id uuid, event_id uuid, event_work_id uuid, perspective_name text, event_type text, event_data jsonb,
    metadata jsonb, commit_sequence bigint, attempts integer)
language plpgsql volatile security invoker set search_path from current as $$
begin
    return query
    select c.stream_id, c.event_id, c.event_work_id, c.perspective_name, c.event_type, c.event_data, c.metadata,
        c.commit_sequence, c.attempts
    from reprieve_claim_events(p_instance_id, p_stream_ids, null, false, coalesce(p_lease_seconds, 300), p_now) c;
end
$$;

create or replace function claim_and_fetch_pending_perspective_events(
    p_stream_id uuid, p_perspective_name text, p_instance_id uuid, p_lease_seconds integer, p_now timestamptz
) returns table (
    stream_id uuid, event_id uuid, event_work_id uuid, perspective_name text, event_type text, event_data jsonb,
    metadata jsonb, commit_sequence bigint, attempts integer)
language plpgsql volatile security invoker set search_path from current as $$
begin
    if p_perspective_name is null then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = 'p_perspective_name is NULL',
            hint = 'expected the name of a perspective; get_stream_events claims for all of them';
    end if;
    return query
    select c.stream_id, c.event_id, c.event_work_id, c.perspective_name, c.event_type, c.event_data, c.metadata,
        c.commit_sequence, c.attempts
    from reprieve_claim_events(
        p_instance_id, array[p_stream_id], p_perspective_name, false, coalesce(p_lease_seconds, 300),
        p_now) c;
end
$$;
