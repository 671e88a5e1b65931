-- What people do to dead letters, a chunk of ids at a time.

-- Carries out an operator's verb and records it; what became of each id: `changed`, `unknown`, `recovered` or `busy`.
create or replace function reprieve_change_rows(
    p_verb text,
    p_ids uuid[],
    p_decision_ids uuid[],
    p_actor text,
    p_note text,
    p_now timestamptz
) returns table (dead_letter_id uuid, result text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
    v_results text[];
begin
    perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    select array_agg(r.id order by r.n), array_agg(r.result order by r.n) into v_ids, v_results
    from (
        select a.id, a.n,
            case
                when d.dead_letter_id is null then 'unknown'
                when d.recovered_at is not null then 'recovered'
                when a.id in (select unnest(b.ids) from wh_recovery_batches b where b.expires_at > v_now) then 'busy'
                else 'changed'
            end as result
        from unnest(p_ids) with ordinality a (id, n)
        left join wh_dead_letters d on d.dead_letter_id = a.id
    ) r;

    update wh_dead_letters d
    set recovery_status = case p_verb when 'retry' then 0 when 'give-up' then 4 else 2 end,
        operator_disposition = case p_verb when 'hold-indefinitely' then 2 when 'give-up' then 3 else 0 end,
        next_recovery_at = case when p_verb = 'retry' then v_now end,
        deferral = null,
        replay_credit = case when p_verb = 'retry' then '*' else d.replay_credit end,
        replay_credit_at = case when p_verb = 'retry' then v_now else d.replay_credit_at end,
        status_note = case p_verb
            when 'retry' then null
            when 'give-up' then 'given up by ' || p_actor
            when 'hold-indefinitely' then 'held indefinitely by ' || p_actor
            else 'held by ' || p_actor end,
        operator_actor = p_actor,
        operator_notes = p_note
    from unnest(v_ids, v_results) as r (id, result)
    where d.dead_letter_id = r.id and r.result = 'changed';

    insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, attempt, rule, note)
    select r.decision_id, r.id, v_now, p_verb, d.recovery_attempts, jsonb_build_object('actor', p_actor), p_note
    from unnest(p_ids, p_decision_ids, v_results) as r (id, decision_id, result)
    join wh_dead_letters d on d.dead_letter_id = r.id
    where r.result = 'changed';

    if p_verb = 'retry' and 'changed' = any (v_results) then
        perform pg_notify('wh_dead_letter_ready', '');
    end if;
    return query select r.id, r.result from unnest(v_ids, v_results) as r (id, result);
end
$$;

-- Carries out an operator's verb, and makes those due that waited for a row that is held or given up.
create or replace function reprieve_change(
    p_verb text,
    p_ids uuid[],
    p_decision_ids uuid[],
    p_actor text,
    p_note text,
    p_now timestamptz
) returns table (dead_letter_id uuid, result text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
begin
    return query
    select c.dead_letter_id, c.result from reprieve_change_rows(p_verb, p_ids, p_decision_ids, p_actor, p_note, p_now) c;
    if p_verb <> 'retry' then
        perform reprieve_wake_hosts_behind(p_ids, p_now);
    end if;
end
$$;
