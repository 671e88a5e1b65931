-- Re-emission of one row outside of a batch.

-- Re-emits one row.
create or replace function reprieve_recover_row(p_dead_letter_id uuid, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_source_table text;
    v_newer uuid;
    v_result record;
    v_outcome text;
begin
    select d.source_table into v_source_table
    from wh_dead_letters d
    where d.dead_letter_id = p_dead_letter_id and d.recovery_status = 0 and d.recovered_at is null
    for update;
    if not found or exists (
        select from wh_recovery_batches b where p_dead_letter_id = any (b.ids) and b.expires_at > p_now)
    then
        return false;
    end if;
    begin
        v_newer := reprieve_superseded_by(p_dead_letter_id);
        if v_newer is null then
            select * into v_result from reprieve_reemit_apart(array[p_dead_letter_id]);
            -- The insert may have waited for the move of a newer death to be committed.
            v_newer := reprieve_superseded_by(p_dead_letter_id);
        end if;
        if v_newer is not null then
            raise sqlstate 'RP001';
        end if;
    exception when sqlstate 'RP001' then
        update wh_dead_letters d
        set recovery_status = 2, next_recovery_at = null, deferral = null, status_note = 'superseded by ' || v_newer
        where d.dead_letter_id = p_dead_letter_id;
        return false;
    end;
    v_outcome := case
        when cardinality(v_result.p_failed) > 0 then 'failed'
        when cardinality(v_result.p_inserted) > 0 then 'recovered'
        else reprieve_why_not_inserted(p_dead_letter_id) end;
    update wh_dead_letters d
    set recovery_attempts = d.recovery_attempts + 1,
        last_recovery_at = p_now,
        recovery_status = case v_outcome when 'recovered' then 3 when 'failed' then 0 else 2 end,
        recovered_at = case when v_outcome = 'recovered' then p_now end,
        next_recovery_at = case when v_outcome = 'failed' then d.next_recovery_at end,
        deferral = case when v_outcome = 'failed' then d.deferral end,
        replay_credit = case when v_outcome = 'failed' then d.replay_credit end,
        replay_credit_at = case when v_outcome = 'failed' then d.replay_credit_at end,
        operator_disposition = case when v_outcome = 'recovered' then 0 else d.operator_disposition end,
        retried_on_generations = case
            when v_outcome <> 'recovered' or d.generation = any (d.retried_on_generations)
            then d.retried_on_generations
            else array_append(d.retried_on_generations, d.generation) end,
        status_note = reprieve_outcome_note(v_outcome, d.source_table, v_result.p_problems[1])
    where d.dead_letter_id = p_dead_letter_id;
    -- A trigger may pass it over in silence: what was inserted would be inserted again.
    if not found then
        raise exception 'a change of dead letter % was not carried out, and nothing said why', p_dead_letter_id;
    end if;
    return v_outcome = 'recovered';
end
$$;

-- Re-emits one row, and makes those due that waited for it.
create or replace function reprieve_recover(p_dead_letter_id uuid, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_recovered boolean := reprieve_recover_row(p_dead_letter_id, p_now);
begin
    if v_recovered or exists (
        select from wh_dead_letters d where d.dead_letter_id = p_dead_letter_id and d.recovery_status = 2)
    then
        perform reprieve_wake_hosts_behind(array[p_dead_letter_id], p_now);
    end if;
    return v_recovered;
end
$$;
