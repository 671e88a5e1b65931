-- The verbs that take a row out of the way of those behind it.
create or replace function mark_dead_letter_holding(p_dead_letter_id uuid) returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    update wh_dead_letters d
    set recovery_status = 2, next_recovery_at = null, deferral = null, status_note = null
    where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null;
    perform reprieve_wake_hosts_behind(array[p_dead_letter_id], null);
end
$$;

create or replace function mark_dead_letter_permanently_failed(p_dead_letter_id uuid) returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    update wh_dead_letters d
    set recovery_status = 4, next_recovery_at = null, deferral = null, status_note = null
    where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null;
    perform reprieve_wake_hosts_behind(array[p_dead_letter_id], null);
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

do $$
begin
    if to_regproc('reprieve_recover_row') is null then
        alter function reprieve_recover rename to reprieve_recover_row;
    end if;
    if to_regproc('reprieve_change_rows') is null then
        alter function reprieve_change rename to reprieve_change_rows;
    end if;
    if to_regproc('reprieve_rescue_batches') is null then
        alter function reprieve_rescue rename to reprieve_rescue_batches;
    end if;
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

-- Dissolves the batches whose lease has ended, and makes those due that waited for a row that is held now.
create or replace function reprieve_rescue(p_max_policy_errors integer, p_now timestamptz)
returns table (batches bigint, attempts bigint, policy_errors bigint)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_undecided uuid[] := array(
        select i.id from wh_recovery_batches b, unnest(b.ids) i (id) where b.expires_at <= v_now and b.phase = 'deciding');
begin
    return query select r.batches, r.attempts, r.policy_errors from reprieve_rescue_batches(p_max_policy_errors, v_now) r;
    if v_undecided <> '{}' then
        perform reprieve_wake_behind(
            array(
                select d.dead_letter_id from wh_dead_letters d
                where d.dead_letter_id = any (v_undecided) and d.recovery_status = 2),
            v_now);
    end if;
end
$$;
