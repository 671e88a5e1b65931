-- Batches that are given back or whose host has died, and whether there is anything to be done.

-- Whether something can be done now, and when the next row falls due. A batch whose lease has ended is something to be
-- done unless it is being settled or dissolved: hosts would ask again without a pause. Only the front of what is due is
-- looked at: a host that asks while another one works through a long stream would else read all of it each time.
create or replace function reprieve_due(p_generation text, p_now timestamptz)
returns table (now timestamptz, due_now boolean, next_at timestamptz)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_in_batches record;
begin
    select * into v_in_batches from reprieve_in_batches(null);
    -- Below, ranges of batch_id have the batches read by their index, as there.
    return query
    select v_now,
        exists (
            select from wh_recovery_batches b
            where b.expires_at <= v_now and b.batch_id >= '00000000-0000-0000-0000-000000000000'
            for update skip locked)
        or exists (
            select from wh_dead_letters d
            where d.operator_disposition = 1 and d.recovered_at is null
                and d.dead_letter_id not in (select unnest(v_in_batches.p_ids)))
        or exists (
            select from (
                select d.dead_letter_id,
                    reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as stream_key
                from wh_dead_letters d
                where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                    and d.operator_disposition not in (2, 3)
                    and coalesce(d.next_recovery_at, d.dead_lettered_at) <= v_now
                    and reprieve_is_for(d.replay_credit, d.replay_credit_at, p_generation, v_now)
                order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id
                limit 5000
            ) f
            where f.dead_letter_id not in (select unnest(v_in_batches.p_ids))
                and coalesce(f.stream_key, '') not in (select unnest(v_in_batches.p_streams_of_others)))
        or (
            select true from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and d.next_recovery_at is null and d.dead_lettered_at > v_now
                and reprieve_is_for(d.replay_credit, d.replay_credit_at, p_generation, v_now)
                and d.dead_letter_id not in (select unnest(v_in_batches.p_ids))
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(v_in_batches.p_streams_of_others))
            order by d.dead_lettered_at, d.dead_letter_id
            limit 1) is not null,
        least(
            (select d.next_recovery_at from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3) and d.next_recovery_at is not null
                and coalesce(d.next_recovery_at, d.dead_lettered_at) > v_now
            order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id
            limit 1),
            (select min(b.expires_at) from wh_recovery_batches b
            where b.expires_at > v_now and b.batch_id >= '00000000-0000-0000-0000-000000000000'));
end
$$;

-- Gives a batch back. Whoever is settling or dissolving it ends it in any case, and may take long.
create or replace function reprieve_release(p_batch_id uuid) returns void
language plpgsql volatile security invoker set search_path from current set lock_timeout = '2s' as $$
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id;
end
$$;

-- Takes rows out of a batch that is being recovered and puts them into one like it; false when the batch was lost. Each
-- holds the streams of those that are among p_in_order.
create or replace function reprieve_split(
    p_batch_id uuid,
    p_keep uuid[],
    p_new_batch_id uuid,
    p_move uuid[],
    p_in_order uuid[]
) returns boolean
language plpgsql volatile security invoker set search_path from current as $$
begin
    -- A split that a crash of the server forgets has done nothing yet, and is found lost with what followed on it.
    perform set_config('synchronous_commit', 'off', true);
    update wh_recovery_batches b
    set ids = p_keep,
        streams = reprieve_streams_of(array(select unnest(p_keep) intersect select unnest(p_in_order)))
    where b.batch_id = p_batch_id and b.phase = 'recovering';
    if not found then
        return false;
    end if;
    insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, started_at, expires_at)
    select p_new_batch_id, b.owner, b.generation, b.phase, p_move,
        reprieve_streams_of(array(select unnest(p_move) intersect select unnest(p_in_order))), b.started_at, b.expires_at
    from wh_recovery_batches b
    where b.batch_id = p_batch_id and p_move <> '{}';
    return true;
end
$$;

-- Holds rows that the host cannot read, and makes those due that waited for one of them.
create or replace function reprieve_hold_unreadable(p_ids uuid[], p_notes text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path from current as $$
begin
    perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    update wh_dead_letters d
    set recovery_status = 2, next_recovery_at = null, deferral = null, status_note = u.note
    from unnest(p_ids, p_notes) as u (id, note)
    where d.dead_letter_id = u.id and d.recovered_at is null;
    return reprieve_wake_behind(p_ids, p_now);
end
$$;

-- Counts on the rows of a batch that it came to nothing, an attempt when it was recovering, a policy error else; on how
-- many, and the failure reasons of those that are held for it. A credit that was there when the batch began pays for the
-- attempt. What the database refuses is halved until the row stands alone, which is left as it is.
create or replace function reprieve_count_rescued(
    p_phase text,
    p_ids uuid[],
    p_started_at timestamptz,
    p_max_policy_errors integer,
    p_now timestamptz,
    out p_counted bigint, out p_held integer[])
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_middle integer := cardinality(p_ids) / 2;
    v_left record;
    v_right record;
begin
    p_held := '{}';
    if p_phase = 'recovering' then
        update wh_dead_letters d
        set recovery_status = 0,
            last_recovery_at = p_now,
            recovery_attempts = d.recovery_attempts + case when c.pays then 0 else 1 end,
            replay_credit = case when not c.pays then d.replay_credit end,
            replay_credit_at = case when not c.pays then d.replay_credit_at end,
            status_note = 'its lease ended before the attempt was settled'
        from (
            select x.dead_letter_id,
                x.replay_credit is not null and coalesce(x.replay_credit_at <= p_started_at, true) as pays
            from wh_dead_letters x
            where x.dead_letter_id = any (p_ids)
        ) c
        where d.dead_letter_id = c.dead_letter_id and d.recovered_at is null and d.recovery_status in (0, 1);
        get diagnostics p_counted = row_count;
    else
        with counted as (
            update wh_dead_letters d
            set policy_errors = d.policy_errors + 1,
                recovery_status = case when d.policy_errors + 1 >= p_max_policy_errors then 2 else 0 end,
                next_recovery_at = case when d.policy_errors + 1 < p_max_policy_errors
                    then p_now + least(interval '1 minute' * 2 ^ least(d.policy_errors, 10), interval '1 hour') end,
                deferral = case when d.policy_errors + 1 < p_max_policy_errors then 'policy-error' end,
                status_note = 'its lease ended while the policy was asked'
            where d.dead_letter_id = any (p_ids) and d.recovered_at is null and d.recovery_status in (0, 1)
            returning d.dead_letter_id, d.recovery_status = 2 as is_held, d.failure_reason, d.recovery_attempts,
                d.status_note
        ),
        recorded as (
            insert into wh_dead_letter_decisions (dead_letter_id, decided_at, decision, attempt, note)
            select c.dead_letter_id, p_now, 'hold', c.recovery_attempts, c.status_note from counted c where c.is_held
        )
        select count(*), coalesce(array_agg(c.failure_reason) filter (where c.is_held), '{}')
        into p_counted, p_held
        from counted c;
    end if;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    if v_middle = 0 then
        raise warning 'dead letter %: the database refuses to change it: %', p_ids[1], sqlerrm;
        p_counted := 0;
        p_held := '{}';
        return;
    end if;
    select * into v_left
    from reprieve_count_rescued(p_phase, p_ids[:v_middle], p_started_at, p_max_policy_errors, p_now);
    select * into v_right
    from reprieve_count_rescued(p_phase, p_ids[v_middle + 1:], p_started_at, p_max_policy_errors, p_now);
    p_counted := v_left.p_counted + v_right.p_counted;
    p_held := v_left.p_held || v_right.p_held;
end
$$;

-- Dissolves the batches whose lease has ended.
create or replace function reprieve_rescue_batches(p_max_policy_errors integer, p_now timestamptz)
returns table (batches bigint, attempts bigint, policy_errors bigint, held integer[])
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_batch record;
    v_counted record;
begin
    held := '{}';
    batches := 0;
    attempts := 0;
    policy_errors := 0;
    for v_batch in
        delete from wh_recovery_batches b
        where b.batch_id in (
            select x.batch_id from wh_recovery_batches x where x.expires_at <= v_now for update skip locked)
        returning b.phase, b.ids, b.started_at
    loop
        batches := batches + 1;
        perform from wh_dead_letters d where d.dead_letter_id = any (v_batch.ids) order by d.dead_letter_id for update;
        select * into v_counted
        from reprieve_count_rescued(
            v_batch.phase, v_batch.ids, v_batch.started_at, p_max_policy_errors, v_now);
        held := held || v_counted.p_held;
        if v_batch.phase = 'recovering' then
            attempts := attempts + v_counted.p_counted;
        else
            policy_errors := policy_errors + v_counted.p_counted;
        end if;
    end loop;
    return next;
end
$$;

-- Dissolves the batches whose lease has ended, and makes those due that waited for a row that is held now. A host that
-- was killed leaves several: their rows are locked together, those of one batch after those of another could be a
-- deadlock.
create or replace function reprieve_rescue(p_max_policy_errors integer, p_now timestamptz)
returns table (batches bigint, attempts bigint, policy_errors bigint, held integer[])
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
    v_undecided uuid[];
begin
    select array_agg(i.id), array_agg(i.id) filter (where b.phase = 'deciding')
    into v_ids, v_undecided
    from (
        select x.phase, x.ids from wh_recovery_batches x where x.expires_at <= v_now for update skip locked
    ) b,
        unnest(b.ids) i (id);
    perform from wh_dead_letters d where d.dead_letter_id = any (v_ids) order by d.dead_letter_id for update;
    return query
    select r.batches, r.attempts, r.policy_errors, r.held
    from reprieve_rescue_batches(p_max_policy_errors, v_now) r;
    if v_undecided <> '{}' then
        perform reprieve_wake_behind(
            array(
                select d.dead_letter_id from wh_dead_letters d
                where d.dead_letter_id = any (v_undecided) and d.recovery_status = 2),
            v_now);
    end if;
end
$$;
