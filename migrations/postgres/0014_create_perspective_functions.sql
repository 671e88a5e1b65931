-- Read models: claiming the events that they are fed with, and saying what became of them. A row is *owned* by the
-- instance in instance_id, and *leased* to it until lease_expiry. Attempts count the changes of the owner, here alone.

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
-- perspective that was not locked, is not due or has failed, and in the company that reprieve_company allows. A row whose
-- event is gone stops none.
create or replace function reprieve_in_order(
    p_stream_ids uuid[], p_perspective_name text, p_ids uuid[], p_taken boolean[]
) returns table (event_work_id uuid, taken boolean)
language plpgsql stable security invoker set search_path from current as $$
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
        left join wh_event_store e on e.event_id = w.event_id
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

    return query
    select w.stream_id, w.event_id, w.event_work_id, w.perspective_name::text, e.event_type::text, e.event_data::jsonb,
        e.metadata::jsonb, e.commit_sequence::bigint, w.attempts, w.claimed_at, coalesce(c.taken, false)
    from wh_perspective_events w
    left join unnest(v_ids, v_taken) as c (id, taken) on c.id = w.event_work_id
    left join wh_event_store e on e.event_id = w.event_id
    where w.stream_id = any (p_stream_ids) and w.processed_at is null
        and (p_perspective_name is null or w.perspective_name = p_perspective_name)
        and w.instance_id = p_instance_id and w.lease_expiry > v_now
        and (c.id is not null or not p_in_order)
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

-- Those of the rows that belong to the instance, locked in the order of their ids. Whether the lease has lapsed does
-- not matter as long as nobody else has taken the row: what was done with it was done.
create or replace function reprieve_lock_owned_events(p_instance_id uuid, p_event_work_ids uuid[]) returns uuid[]
language plpgsql volatile security invoker set search_path from current as $$
begin
    return (
        select coalesce(array_agg(l.event_work_id), '{}')
        from (
            select w.event_work_id from wh_perspective_events w
            where w.event_work_id = any (p_event_work_ids) and w.instance_id = p_instance_id and w.processed_at is null
            order by w.event_work_id
            for update
        ) l);
end
$$;

create or replace function reprieve_complete_events(p_instance_id uuid, p_event_work_ids uuid[], p_now timestamptz)
returns table (event_work_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_ids uuid[] := reprieve_lock_owned_events(p_instance_id, p_event_work_ids);
begin
    return query
    update wh_perspective_events w
    set processed_at = coalesce(p_now, clock_timestamp()), lease_expiry = null
    where w.event_work_id = any (v_ids)
    returning w.event_work_id;
end
$$;

create or replace function complete_perspective_events(p_instance_id uuid, p_event_work_ids uuid[])
returns table (event_work_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
begin
    return query select c.event_work_id from reprieve_complete_events(p_instance_id, p_event_work_ids, null) c;
end
$$;

-- A failed row waits one second, twice as long after each further attempt, at most five minutes. It has no owner then,
-- so the next claim counts as an attempt, whoever makes it.
create or replace function reprieve_fail_events(
    p_instance_id uuid, p_event_work_ids uuid[], p_errors text[], p_failure_reasons integer[], p_now timestamptz
) returns table (event_work_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[] := reprieve_lock_owned_events(p_instance_id, p_event_work_ids);
begin
    return query
    update wh_perspective_events w
    set error = reprieve_clean_text(f.error),
        failure_reason = coalesce(f.reason, 99),
        scheduled_for = v_now
            + make_interval(secs => least(300, power(2, greatest(least(w.attempts, 20), 1) - 1))::double precision),
        instance_id = null,
        lease_expiry = null
    from unnest(p_event_work_ids, p_errors, p_failure_reasons) as f (id, error, reason)
    where w.event_work_id = any (v_ids) and f.id = w.event_work_id
    returning w.event_work_id;
end
$$;

create or replace function fail_perspective_events(
    p_instance_id uuid, p_event_work_ids uuid[], p_errors text[], p_failure_reasons integer[]
) returns table (event_work_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
begin
    return query
    select f.event_work_id
    from reprieve_fail_events(p_instance_id, p_event_work_ids, p_errors, p_failure_reasons, null) f;
end
$$;

-- Says that an instance is alive, and registers it when it is new.
create or replace function heartbeat_service_instance(
    p_instance_id uuid, p_service_name text, p_host_name text, p_process_id integer, p_metadata jsonb default null,
    p_now timestamptz default null
) returns void
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
    insert into wh_service_instances as i
        (instance_id, service_name, host_name, process_id, started_at, last_heartbeat_at, metadata)
    values (p_instance_id, p_service_name, p_host_name, p_process_id, v_now, v_now, p_metadata)
    on conflict (instance_id) do update
    set last_heartbeat_at = greatest(i.last_heartbeat_at, excluded.last_heartbeat_at), metadata = coalesce(excluded.metadata, i.metadata);
end
$$;

-- Forgets the instances that have been silent for longer; what they hold can be taken over once its lease has lapsed.
create or replace function remove_stale_service_instances(
    p_now timestamptz default null, p_silent_seconds integer default 300
) returns table (instance_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_before timestamptz := coalesce(p_now, clock_timestamp()) - make_interval(secs => coalesce(p_silent_seconds, 300));
begin
    return query
    delete from wh_service_instances i
    where i.instance_id in (
        select s.instance_id from wh_service_instances s
        where s.last_heartbeat_at < v_before
        order by s.instance_id
        for update skip locked)
    returning i.instance_id;
end
$$;

-- Moves rows so that a bad one does not keep the others back: what fails is halved until the bad row stands alone.
create or replace function reprieve_move_apart(
    p_source_table text, p_source_ids uuid[], p_dead_letter_ids uuid[], p_error_texts text[], p_failure_reason integer,
    p_instance_id uuid, p_generation text, p_now timestamptz,
    out p_failed uuid[], out p_problems text[])
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_middle integer := cardinality(p_source_ids) / 2;
    v_left record;
    v_right record;
begin
    p_failed := '{}';
    p_problems := '{}';
    begin
        for i in 1 .. cardinality(p_source_ids) loop
            perform reprieve_move(p_dead_letter_ids[i], p_source_table, p_source_ids[i], p_failure_reason,
                p_error_texts[i], p_instance_id, p_generation, p_now);
        end loop;
        return;
    exception when others then
        if reprieve_is_infrastructure(sqlstate) then
            raise;
        end if;
        p_problems := array[sqlerrm];
    end;
    if cardinality(p_source_ids) = 1 then
        p_failed := p_source_ids;
        return;
    end if;
    select * into v_left from reprieve_move_apart(p_source_table, p_source_ids[:v_middle],
        p_dead_letter_ids[:v_middle], p_error_texts[:v_middle], p_failure_reason, p_instance_id, p_generation, p_now);
    select * into v_right from reprieve_move_apart(p_source_table, p_source_ids[v_middle + 1:],
        p_dead_letter_ids[v_middle + 1:], p_error_texts[v_middle + 1:], p_failure_reason, p_instance_id, p_generation,
        p_now);
    p_failed := v_left.p_failed || v_right.p_failed;
    p_problems := v_left.p_problems || v_right.p_problems;
end
$$;

-- Moves those of the rows that belong to the instance; what became of each: `moved`, `gone` (or taken by another), or
-- `failed` with the problem.
create or replace function reprieve_move_leased(
    p_source_table text, p_source_ids uuid[], p_dead_letter_ids uuid[], p_error_texts text[], p_failure_reason integer,
    p_instance_id uuid, p_generation text, p_now timestamptz
) returns table (source_id uuid, outcome text, problem text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_leased uuid[];
    v_chosen record;
    v_result record;
begin
    case p_source_table
    when 'wh_outbox' then
        select array_agg(l.message_id) into v_leased from (
            select s.message_id from wh_outbox s
            where s.message_id = any (p_source_ids) and s.instance_id = p_instance_id and s.processed_at is null
            order by s.message_id
            for update) l;
    when 'wh_inbox' then
        select array_agg(l.message_id) into v_leased from (
            select s.message_id from wh_inbox s
            where s.message_id = any (p_source_ids) and s.instance_id = p_instance_id and s.processed_at is null
            order by s.message_id
            for update) l;
    when 'wh_perspective_events' then
        v_leased := reprieve_lock_owned_events(p_instance_id, p_source_ids);
    else
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('source table %s is unknown', coalesce(quote_literal(p_source_table), 'NULL')),
            hint = 'expected wh_outbox, wh_inbox or wh_perspective_events';
    end case;
    select array_agg(a.source_id order by a.source_id) as source_ids,
        array_agg(a.dead_letter_id order by a.source_id) as dead_letter_ids,
        array_agg(a.error_text order by a.source_id) as error_texts
    into v_chosen
    from (
        select distinct on (u.source_id) u.source_id, u.dead_letter_id, u.error_text
        from unnest(p_source_ids, p_dead_letter_ids, p_error_texts)
            with ordinality as u (source_id, dead_letter_id, error_text, n)
        order by u.source_id, u.n
    ) a
    join unnest(v_leased) as l (id) on l.id = a.source_id;
    select * into v_result
    from reprieve_move_apart(p_source_table, coalesce(v_chosen.source_ids, '{}'), v_chosen.dead_letter_ids,
        v_chosen.error_texts, p_failure_reason, p_instance_id, p_generation, coalesce(p_now, clock_timestamp()));
    return query
    select a.id, case when a.again then 'gone' when f.id is not null then 'failed' when l.id is not null then 'moved'
        else 'gone' end, f.problem
    from (
        select u.id, u.n, row_number() over (partition by u.id order by u.n) > 1 as again
        from unnest(p_source_ids) with ordinality u (id, n)
    ) a
    left join unnest(v_leased) as l (id) on l.id = a.id
    left join unnest(v_result.p_failed, v_result.p_problems) as f (id, problem) on f.id = a.id
    order by a.n;
end
$$;
