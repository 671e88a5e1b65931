-- Read models: what became of the events that were claimed, and who is alive.

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
    set last_heartbeat_at = greatest(i.last_heartbeat_at, excluded.last_heartbeat_at),
        metadata = coalesce(excluded.metadata, i.metadata);
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
