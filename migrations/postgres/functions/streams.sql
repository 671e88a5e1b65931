-- Streams that keep their order: what stands before a row, and what is due once that is gone. A row's place in its
-- stream is (source_position, with one before all without; source_created_at, else dead_lettered_at; source_id;
-- dead_letter_id).

-- The stream that a row stands in, as text; NULL when it stands in none.
create or replace function reprieve_stream_key(p_source_table text, p_stream_id uuid, p_perspective_name text)
returns text
language sql immutable parallel safe as $$
    select case
        when p_stream_id is null or p_stream_id = '00000000-0000-0000-0000-000000000000' then null
        when p_source_table = 'wh_perspective_events'
        then p_source_table || '|' || p_stream_id::text || '|' || coalesce(p_perspective_name, '')
        else p_source_table || '|' || p_stream_id::text
    end
$$;

-- Dead letters in the order of their streams, each with the first row that stands before it: of those that are open, or
-- with p_held also held, and not among p_ids. Rows that only an older death of a message stand in for, and those that
-- take no part in the order, are passed: p_passed always, p_standing never, others by what the policy said last. A row is
-- looked up in `(select unnest(…))` by its hash; `all (…)` would compare it with each.
create or replace function reprieve_stream_order(
    p_ids uuid[],
    p_passed uuid[],
    p_standing uuid[],
    p_held boolean
) returns table (dead_letter_id uuid, predecessor uuid, predecessor_due_at timestamptz)
language plpgsql stable security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with streams as materialized (
        select o.key, array_agg(o.dead_letter_id) as ids, array_agg(o.position) as positions,
            array_agg(o.created_at) as times, array_agg(o.source_id) as sources, count(*)::integer as last
        from (
            select d.dead_letter_id, reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as key,
                coalesce(d.source_position, 9223372036854775807) as position,
                coalesce(d.source_created_at, d.dead_lettered_at) as created_at, d.source_id
            from wh_dead_letters d
            where d.dead_letter_id = any (p_ids)
            order by 2, 3, 4, 5, 1
        ) o
        group by o.key
    ),
    fronts as materialized (
        select s.*, f.dead_letter_id as front, f.next_recovery_at as due_at, f.position as front_position,
            f.created_at as front_created_at, f.source_id as front_source_id
        from streams s
        left join lateral (
            (select d.dead_letter_id, d.next_recovery_at, coalesce(d.source_position, 9223372036854775807) as position,
                coalesce(d.source_created_at, d.dead_lettered_at) as created_at, d.source_id
            from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3) and d.stream_id is not null
                and reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) = s.key
                and (coalesce(d.source_position, 9223372036854775807),
                    coalesce(d.source_created_at, d.dead_lettered_at), d.source_id, d.dead_letter_id)
                    < (s.positions[s.last], s.times[s.last], s.sources[s.last], s.ids[s.last])
                and d.dead_letter_id not in (select unnest(p_ids || p_passed))
                and (
                    select true from wh_dead_letters n
                    where n.source_table = d.source_table and n.source_id = d.source_id
                        and n.incarnation > d.incarnation and n.incarnation > 1
                    limit 1) is null
                and (d.dead_letter_id = any (p_standing) or coalesce((
                    select c.rule ->> 'stream_mode' from wh_dead_letter_decisions c
                    where c.dead_letter_id = d.dead_letter_id and c.rule ? 'stream_mode'
                    order by c.decided_at desc, c.decision_id desc
                    limit 1), '') <> 'per-message')
            order by coalesce(d.source_position, 9223372036854775807),
                coalesce(d.source_created_at, d.dead_lettered_at), d.source_id, d.dead_letter_id
            limit 1)
            union all
            (select d.dead_letter_id, null, coalesce(d.source_position, 9223372036854775807),
                coalesce(d.source_created_at, d.dead_lettered_at), d.source_id
            from wh_dead_letters d
            where p_held and d.recovered_at is null and d.recovery_status not in (3, 4) and d.operator_disposition <> 3
                and (d.recovery_status = 2 or d.operator_disposition = 2) and d.stream_id is not null
                and reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) = s.key
                and (coalesce(d.source_position, 9223372036854775807),
                    coalesce(d.source_created_at, d.dead_lettered_at), d.source_id, d.dead_letter_id)
                    < (s.positions[s.last], s.times[s.last], s.sources[s.last], s.ids[s.last])
                and d.dead_letter_id not in (select unnest(p_ids || p_passed))
                and (
                    select true from wh_dead_letters n
                    where n.source_table = d.source_table and n.source_id = d.source_id
                        and n.incarnation > d.incarnation and n.incarnation > 1
                    limit 1) is null
                and (d.dead_letter_id = any (p_standing) or coalesce((
                    select c.rule ->> 'stream_mode' from wh_dead_letter_decisions c
                    where c.dead_letter_id = d.dead_letter_id and c.rule ? 'stream_mode'
                    order by c.decided_at desc, c.decision_id desc
                    limit 1), '') <> 'per-message')
            order by coalesce(d.source_position, 9223372036854775807),
                coalesce(d.source_created_at, d.dead_lettered_at), d.source_id, d.dead_letter_id
            limit 1)
            order by 3, 4, 5, 1
            limit 1
        ) f on true
    )
    select o.dead_letter_id, e.front, e.due_at
    from fronts s
    cross join lateral unnest(s.ids, s.positions, s.times, s.sources) with ordinality
        as o (dead_letter_id, position, created_at, source_id, n)
    left join lateral (
        select s.front, s.due_at
        where s.front is not null
            and (s.front_position, s.front_created_at, s.front_source_id, s.front)
                < (o.position, o.created_at, o.source_id, o.dead_letter_id)
    ) e on true
    order by s.key, o.n;
end
$$;

-- What each of these rows waits for that wait for an earlier one of their stream: an open row, else a held one.
create or replace function reprieve_waits_for(p_ids uuid[]) returns table (dead_letter_id uuid, predecessor uuid)
language plpgsql stable security invoker set search_path from current as $$
#variable_conflict use_column
begin
    return query
    select d.dead_letter_id, coalesce(o.predecessor, h.predecessor)
    from wh_dead_letters d
    cross join lateral reprieve_stream_order(array[d.dead_letter_id], '{}', '{}', false) o
    left join lateral reprieve_stream_order(array[d.dead_letter_id], '{}', '{}', true) h on o.predecessor is null
    where d.dead_letter_id = any (p_ids) and d.deferral = 'stream' and d.recovered_at is null
        and d.recovery_status in (0, 1);
end
$$;

-- The streams of these rows.
create or replace function reprieve_streams_of(p_ids uuid[]) returns text[]
language plpgsql stable security invoker set search_path from current as $$
begin
    return array(
        select distinct k.key
        from wh_dead_letters d,
            lateral (select reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name)) k (key)
        where d.dead_letter_id = any (p_ids) and k.key is not null);
end
$$;

-- Makes the first rows due that wait in these streams; how many. They fall due in the order of their streams, so that
-- claims meet them in it. A row that somebody else has locked is left to whatever that one does with it: to wait for it
-- here, with other rows locked, could be a deadlock. A stream of which the database refuses that is passed: its rows are
-- looked at in any case, though later.
create or replace function reprieve_wake_streams(p_keys text[], p_now timestamptz, p_most integer default 1000)
returns bigint
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_ids uuid[];
    v_woken bigint;
    v_middle integer := cardinality(p_keys) / 2;
begin
    select array_agg(w.dead_letter_id order by w.place) into v_ids
    from (
        select x.dead_letter_id, row_number() over () as place
        from unnest(p_keys) as k (key)
        cross join lateral (
            select d.dead_letter_id from wh_dead_letters d
            where d.deferral = 'stream' and d.recovered_at is null and d.recovery_status in (0, 1)
                and reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) = k.key
            order by coalesce(d.source_position, 9223372036854775807),
                coalesce(d.source_created_at, d.dead_lettered_at), d.source_id, d.dead_letter_id
            limit greatest(1, p_most / greatest(1, cardinality(p_keys)))
        ) x
    ) w;
    if v_ids is null then
        return 0;
    end if;
    begin
        with free as (
            select d.dead_letter_id, v.place
            from unnest(v_ids) with ordinality as v (id, place)
            join wh_dead_letters d on d.dead_letter_id = v.id
            -- Not a condition of the index of those that wait: they are looked up by their ids.
            where d.deferral is not distinct from 'stream' and d.recovered_at is null and d.recovery_status in (0, 1)
            order by d.dead_letter_id
            for update of d skip locked
        )
        update wh_dead_letters d
        set next_recovery_at = p_now - (cardinality(v_ids) - free.place) * interval '1 microsecond',
            deferral = null, status_note = null
        from free
        where d.dead_letter_id = free.dead_letter_id;
        get diagnostics v_woken = row_count;
        return v_woken;
    exception when others then
        if reprieve_is_infrastructure(sqlstate) then
            raise;
        end if;
        if v_middle = 0 then
            raise warning 'no row of stream % is made due: %', p_keys[1], sqlerrm;
            return 0;
        end if;
    end;
    return reprieve_wake_streams(p_keys[:v_middle], p_now, p_most / 2)
        + reprieve_wake_streams(p_keys[v_middle + 1:], p_now, p_most / 2);
end
$$;

-- The same for the streams of these rows, which are in nobody's way any more.
create or replace function reprieve_wake_behind(p_ids uuid[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path from current as $$
begin
    return reprieve_wake_streams(reprieve_streams_of(p_ids), coalesce(p_now, clock_timestamp()));
end
$$;

-- Makes those due that waited for these rows, and tells the hosts.
create or replace function reprieve_wake_hosts_behind(p_ids uuid[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    if reprieve_wake_behind(p_ids, p_now) > 0 then
        perform pg_notify('wh_dead_letter_ready', '');
    end if;
end
$$;
