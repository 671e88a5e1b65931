-- The contract with applications: each function does one thing in the caller's transaction, with the caller's rights.
-- The search path is the one of the migration, so that a caller's own cannot redirect a name.

create or replace function fetch_dead_letters_due(p_now timestamptz, p_max integer) returns table (
    dead_letter_id uuid, source_table text, source_id uuid, stream_id uuid, message_type text, destination text,
    perspective_name text, metadata jsonb, failure_reason integer, error_text text, attempts_when_dlq integer,
    dead_lettered_at timestamptz, dead_lettered_by uuid, recovery_status integer, recovery_attempts integer,
    last_recovery_at timestamptz, next_recovery_at timestamptz, recovered_at timestamptz, generation text,
    retried_on_generations text[], operator_disposition integer, operator_notes text, operator_actor text,
    error_fingerprint varchar, error_fingerprint_version smallint, source_created_at timestamptz,
    source_position bigint, incarnation integer, replay_credit text, replay_credit_at timestamptz, deferral text,
    policy_errors integer, policy_error_digest text, status_note text)
language plpgsql stable security invoker set search_path from current as $$
#variable_conflict use_column
begin
    return query
    select d.dead_letter_id, d.source_table, d.source_id, d.stream_id, d.message_type, d.destination,
        d.perspective_name, d.metadata, d.failure_reason, d.error_text, d.attempts_when_dlq,
        d.dead_lettered_at, d.dead_lettered_by, d.recovery_status, d.recovery_attempts,
        d.last_recovery_at, d.next_recovery_at, d.recovered_at, d.generation,
        d.retried_on_generations, d.operator_disposition, d.operator_notes, d.operator_actor,
        d.error_fingerprint, d.error_fingerprint_version, d.source_created_at,
        d.source_position, d.incarnation, d.replay_credit, d.replay_credit_at, d.deferral,
        d.policy_errors, d.policy_error_digest, d.status_note
    from wh_dead_letters d
    join (
        -- Two ranges of two indexes: rows that have been due, and fresh ones whose death lies ahead of the clock.
        (select f.dead_letter_id from wh_dead_letters f
        where f.recovered_at is null and f.recovery_status not in (2, 3, 4) and f.operator_disposition not in (2, 3)
            and coalesce(f.next_recovery_at, f.dead_lettered_at) <= p_now
        order by f.dead_lettered_at, f.dead_letter_id
        limit p_max)
        union all
        (select f.dead_letter_id from wh_dead_letters f
        where f.recovered_at is null and f.recovery_status not in (2, 3, 4) and f.operator_disposition not in (2, 3)
            and f.next_recovery_at is null and f.dead_lettered_at > p_now
        order by f.dead_lettered_at, f.dead_letter_id
        limit p_max)
    ) due on due.dead_letter_id = d.dead_letter_id
    order by d.dead_lettered_at, d.dead_letter_id
    limit p_max;
end
$$;

create or replace function recover_dead_letter(p_dead_letter_id uuid) returns boolean
language plpgsql volatile security invoker set search_path from current as $$
begin
    return reprieve_recover(p_dead_letter_id, now());
end
$$;

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

create or replace function schedule_next_dead_letter_attempt(p_dead_letter_id uuid, p_next_recovery_at timestamptz)
returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    update wh_dead_letters d
    set recovery_status = 0,
        next_recovery_at = p_next_recovery_at,
        deferral = case when p_next_recovery_at is not null then 'operator' end,
        status_note = null
    where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null;
end
$$;

create or replace function reset_dead_letters_for_generation(p_generation text) returns integer
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_swept integer;
begin
    select s.swept into v_swept
    from reprieve_sweep(p_generation, now(), interval '0', 0, 0, null, null, null) s;
    return v_swept;
end
$$;
