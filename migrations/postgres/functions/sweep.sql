-- What makes many rows due at once, in chunks.

-- The rows that a generation has not reached, oldest first, among so many that are not recovered, after a place; `p_limit`
-- NULL looks at all of them. Rows are counted as they are looked at, so that no chunk reads more than it says.
create or replace function reprieve_unswept(
    p_generation text,
    p_after_at timestamptz,
    p_after_id uuid,
    p_limit integer
) returns table (ids uuid[], looked_at bigint, last_at timestamptz, last_id uuid)
language plpgsql stable security invoker set search_path from current set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    return query
    select array_agg(c.id order by c.at, c.id) filter (where c.is_unswept), count(*), max(c.at),
        (array_agg(c.id order by c.at desc, c.id desc))[1]
    from (
        select d.dead_letter_id as id, d.dead_lettered_at as at,
            d.recovery_status <> 4 and d.operator_disposition <> 2
                and not p_generation = any (d.retried_on_generations) as is_unswept
        from wh_dead_letters d
        where d.recovered_at is null
            and (d.dead_lettered_at, d.dead_letter_id) > (
                coalesce(p_after_at, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
        order by d.dead_lettered_at, d.dead_letter_id
        limit p_limit
    ) c;
end
$$;

-- Sweeps these rows, which are locked; how many. What the database refuses is halved until the row stands alone, which
-- is left as it is. The first of them is the one in place p_first of p_total.
create or replace function reprieve_sweep_rows(
    p_ids uuid[],
    p_generation text,
    p_now timestamptz,
    p_stagger interval,
    p_first bigint,
    p_total bigint
) returns bigint
language plpgsql volatile security invoker set search_path from current set enable_bitmapscan = off
as $$
declare
    v_swept bigint;
    v_middle integer := cardinality(p_ids) / 2;
begin
    update wh_dead_letters d
    set retried_on_generations = array_append(d.retried_on_generations, p_generation),
        replay_credit = case when d.generation = p_generation then d.replay_credit else p_generation end,
        replay_credit_at = case when d.generation = p_generation then d.replay_credit_at else p_now end,
        recovery_status = case when c.stays then d.recovery_status else 0 end,
        next_recovery_at = case when c.stays then d.next_recovery_at
            else p_now + p_stagger * ((p_first + c.n - 1)::double precision / greatest(p_total, 1)) end,
        deferral = case when c.stays then d.deferral end,
        status_note = case when c.stays then d.status_note end
    from (
        select x.dead_letter_id, v.n,
            x.recovery_status = 2 and x.generation = p_generation
                or x.dead_letter_id in (
                    select unnest(b.ids) from wh_recovery_batches b where b.expires_at > p_now) as stays
        from unnest(p_ids) with ordinality v (id, n)
        join wh_dead_letters x on x.dead_letter_id = v.id
    ) c
    where d.dead_letter_id = c.dead_letter_id
        and d.recovered_at is null and d.recovery_status <> 4 and d.operator_disposition <> 2
        and not p_generation = any (d.retried_on_generations);
    get diagnostics v_swept = row_count;
    return v_swept;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    if v_middle = 0 then
        raise warning 'dead letter % is not swept: %', p_ids[1], sqlerrm;
        return 0;
    end if;
    return reprieve_sweep_rows(p_ids[:v_middle], p_generation, p_now, p_stagger, p_first, p_total)
        + reprieve_sweep_rows(p_ids[v_middle + 1:], p_generation, p_now, p_stagger, p_first + v_middle, p_total);
end
$$;

-- One chunk of a generation sweep, oldest first, going on after a place; `p_limit` NULL sweeps the rest. The rows fall
-- due spread over the stagger: the one in place `p_first` of `p_total` that much of it after `p_now`.
-- A row that died on the generation itself gets no credit, and a batch that has a row in hand goes on with it.
create or replace function reprieve_sweep(
    p_generation text,
    p_now timestamptz,
    p_stagger interval,
    p_first bigint,
    p_total bigint,
    p_after_at timestamptz,
    p_after_id uuid,
    p_limit integer
) returns table (swept bigint, looked_at bigint, last_at timestamptz, last_id uuid)
language plpgsql volatile security invoker set search_path from current set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
begin
    if p_generation is null or p_generation = '' then
        raise exception using errcode = 'invalid_parameter_value', message = 'a sweep needs a generation';
    end if;
    select u.ids, u.looked_at, u.last_at, u.last_id into v_ids, looked_at, last_at, last_id
    from reprieve_unswept(p_generation, p_after_at, p_after_id, p_limit) u;
    swept := 0;
    if v_ids is not null then
        perform from wh_dead_letters d where d.dead_letter_id = any (v_ids) order by d.dead_letter_id for update;
        swept := reprieve_sweep_rows(v_ids, p_generation, v_now, p_stagger, p_first, p_total);
    end if;
    if swept > 0 then
        perform pg_notify('wh_dead_letter_ready', '');
    end if;
    return next;
end
$$;

-- Takes the retries that an application asked for on these rows, which are locked; how many. What the database refuses
-- is halved until the row stands alone, which is left.
create or replace function reprieve_take_retries_of(
    p_ids uuid[],
    p_now timestamptz,
    out p_taken bigint, out p_problem text)
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_middle integer := cardinality(p_ids) / 2;
    v_half record;
begin
    with taken as (
        update wh_dead_letters d
        set recovery_status = 0, operator_disposition = 0, next_recovery_at = p_now, deferral = null,
            replay_credit = '*', replay_credit_at = p_now, status_note = null
        where d.dead_letter_id = any (p_ids)
        returning d.dead_letter_id, d.recovery_attempts, d.operator_actor, d.operator_notes
    ),
    recorded as (
        insert into wh_dead_letter_decisions (dead_letter_id, decided_at, decision, attempt, rule, note)
        select t.dead_letter_id, p_now, 'retry', t.recovery_attempts, jsonb_build_object('actor', t.operator_actor),
            t.operator_notes
        from taken t
    )
    select count(*) into p_taken from taken;
    if p_taken < cardinality(p_ids) then
        raise exception 'a retry was not carried out, and nothing said why';
    end if;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    p_taken := 0;
    p_problem := format('%s: %s', p_ids[1], sqlerrm);
    if v_middle > 0 then
        select * into v_half from reprieve_take_retries_of(p_ids[:v_middle], p_now);
        p_taken := v_half.p_taken;
        p_problem := v_half.p_problem;
        select * into v_half from reprieve_take_retries_of(p_ids[v_middle + 1:], p_now);
        p_taken := p_taken + v_half.p_taken;
        p_problem := coalesce(p_problem, v_half.p_problem);
    end if;
end
$$;

-- Takes each row whose disposition an application set to RetryNow as one operator's retry, in the order of their ids
-- after p_after: how many, what the database said of one that it did not let be taken, and the last of a full chunk.
create or replace function reprieve_take_retries(
    p_after uuid,
    p_limit integer,
    p_now timestamptz
) returns table (taken bigint, problem text, last_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
    v_looked_at integer;
begin
    select array_agg(x.dead_letter_id order by x.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.operator_disposition = 1 and d.recovered_at is null and (p_after is null or d.dead_letter_id > p_after)
            and d.dead_letter_id not in (
                select unnest(b.ids) from wh_recovery_batches b where b.expires_at > v_now)
        order by d.dead_letter_id
        limit p_limit
    ) x;
    v_looked_at := cardinality(v_ids);
    last_id := case when v_looked_at = p_limit then v_ids[v_looked_at] end;
    select array_agg(l.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.dead_letter_id = any (v_ids) and d.operator_disposition = 1 and d.recovered_at is null
        order by d.dead_letter_id
        for update
    ) l;
    taken := 0;
    if v_ids is not null then
        select t.p_taken, t.p_problem into taken, problem from reprieve_take_retries_of(v_ids, v_now) t;
    end if;
    return next;
end
$$;

-- Makes these rows due, which are locked; how many. What the database refuses is halved until the row stands alone, which
-- is left as it is.
create or replace function reprieve_make_due(p_ids uuid[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_made bigint;
    v_middle integer := cardinality(p_ids) / 2;
begin
    update wh_dead_letters d set next_recovery_at = p_now, deferral = null where d.dead_letter_id = any (p_ids);
    get diagnostics v_made = row_count;
    return v_made;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    if v_middle = 0 then
        raise warning 'dead letter % is not made due: %', p_ids[1], sqlerrm;
        return 0;
    end if;
    return reprieve_make_due(p_ids[:v_middle], p_now) + reprieve_make_due(p_ids[v_middle + 1:], p_now);
end
$$;

-- Looks at a chunk of the rows that a policy put off, in the order of their ids, and makes those due that another
-- policy than the one with this digest put off; with p_unknown also those of which the policy is not known, as after
-- the death of a host that was deciding. Fewer looked at than asked for: that was the last chunk.
create or replace function reprieve_clear_policy_deferrals(
    p_digest text,
    p_unknown boolean,
    p_after uuid,
    p_limit integer,
    p_now timestamptz)
returns table (looked_at bigint, cleared bigint, last_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_ids uuid[];
begin
    select array_agg(x.dead_letter_id order by x.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.deferral in ('skip', 'policy-error') and (p_after is null or d.dead_letter_id > p_after)
        order by d.dead_letter_id
        limit p_limit
    ) x;
    looked_at := coalesce(cardinality(v_ids), 0);
    last_id := v_ids[looked_at];

    select array_agg(l.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.dead_letter_id = any (v_ids)
            and d.deferral in ('skip', 'policy-error') and d.recovered_at is null and d.recovery_status in (0, 1)
            and (d.policy_error_digest <> p_digest or d.policy_error_digest is null and p_unknown)
        order by d.dead_letter_id
        for update
    ) l;
    cleared := case when v_ids is null then 0 else reprieve_make_due(v_ids, coalesce(p_now, clock_timestamp())) end;
    return next;
end
$$;
