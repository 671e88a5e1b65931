-- Dissolves the batches whose lease has ended. A credit that was there when the batch began pays for the attempt.
create or replace function reprieve_rescue(p_max_policy_errors integer, p_now timestamptz)
returns table (batches bigint, attempts bigint, policy_errors bigint)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_batch record;
    v_changed bigint;
begin
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
        if v_batch.phase = 'recovering' then
            update wh_dead_letters d
            set recovery_status = 0,
                last_recovery_at = v_now,
                recovery_attempts = d.recovery_attempts + case when c.pays then 0 else 1 end,
                replay_credit = case when not c.pays then d.replay_credit end,
                replay_credit_at = case when not c.pays then d.replay_credit_at end,
                status_note = 'its host stopped before the attempt was done'
            from (
                select x.dead_letter_id,
                    x.replay_credit is not null
                        and coalesce(x.replay_credit_at <= v_batch.started_at, true) as pays
                from wh_dead_letters x
                where x.dead_letter_id = any (v_batch.ids)
            ) c
            where d.dead_letter_id = c.dead_letter_id and d.recovered_at is null and d.recovery_status in (0, 1);
            get diagnostics v_changed = row_count;
            attempts := attempts + v_changed;
        else
            update wh_dead_letters d
            set policy_errors = d.policy_errors + 1,
                recovery_status = case when d.policy_errors + 1 >= p_max_policy_errors then 2 else 0 end,
                next_recovery_at = case when d.policy_errors + 1 < p_max_policy_errors
                    then v_now + least(interval '1 minute' * 2 ^ least(d.policy_errors, 10), interval '1 hour') end,
                deferral = case when d.policy_errors + 1 < p_max_policy_errors then 'policy-error' end,
                status_note = 'its host stopped while the policy was asked'
            where d.dead_letter_id = any (v_batch.ids) and d.recovered_at is null and d.recovery_status in (0, 1);
            get diagnostics v_changed = row_count;
            policy_errors := policy_errors + v_changed;
        end if;
    end loop;
    return next;
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
    select array_agg(c.dead_letter_id order by c.dead_lettered_at, c.dead_letter_id), count(*)
    into v_ids, looked_at
    from (
        select d.dead_letter_id, d.dead_lettered_at
        from wh_dead_letters d
        where d.recovered_at is null and d.recovery_status <> 4 and d.operator_disposition <> 2
            and not p_generation = any (d.retried_on_generations)
            and (d.dead_lettered_at, d.dead_letter_id) > (
                coalesce(p_after_at, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
        order by d.dead_lettered_at, d.dead_letter_id
        limit p_limit
    ) c;
    swept := 0;
    if v_ids is not null then
        perform from wh_dead_letters d where d.dead_letter_id = any (v_ids) order by d.dead_letter_id for update;
        update wh_dead_letters d
        set retried_on_generations = array_append(d.retried_on_generations, p_generation),
            replay_credit = case when d.generation = p_generation then d.replay_credit else p_generation end,
            replay_credit_at = case when d.generation = p_generation then d.replay_credit_at else v_now end,
            recovery_status = case when c.stays then d.recovery_status else 0 end,
            next_recovery_at = case when c.stays then d.next_recovery_at
                else v_now + p_stagger * ((p_first + c.n - 1)::double precision / greatest(p_total, 1)) end,
            deferral = case when c.stays then d.deferral end,
            status_note = case when c.stays then d.status_note end
        from (
            select x.dead_letter_id, v.n,
                x.recovery_status = 2 and x.generation = p_generation
                    or x.dead_letter_id in (
                        select unnest(b.ids) from wh_recovery_batches b where b.expires_at > v_now) as stays
            from unnest(v_ids) with ordinality v (id, n)
            join wh_dead_letters x on x.dead_letter_id = v.id
        ) c
        where d.dead_letter_id = c.dead_letter_id
            and d.recovered_at is null and d.recovery_status <> 4 and d.operator_disposition <> 2
            and not p_generation = any (d.retried_on_generations);
        get diagnostics swept = row_count;
        last_id := v_ids[cardinality(v_ids)];
        select d.dead_lettered_at into last_at from wh_dead_letters d where d.dead_letter_id = last_id;
    end if;
    if swept > 0 then
        perform pg_notify('wh_dead_letter_ready', '');
    end if;
    return next;
end
$$;
