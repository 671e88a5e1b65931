-- The contract with applications: each function does one thing in the caller's transaction, with the caller's rights.
-- The search path is the one of the migration, so that a caller's own cannot redirect a name.

-- JSON that jsonb refuses (NUL characters, unpaired surrogates) is kept with a visible mark instead; what cannot be
-- mended is kept as one JSON string.
create or replace function reprieve_json(p_json text) returns jsonb
language plpgsql immutable security invoker set search_path from current as $$
begin
    return p_json::jsonb;
exception when others then
    begin
        return regexp_replace(p_json, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\u2400', 'g')::jsonb;
    exception when others then
        return to_jsonb(regexp_replace(
            regexp_replace(p_json, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\u2400', 'g'),
            '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\1\\ufffd', 'g'));
    end;
end
$$;

-- A row as jsonb, whatever its columns hold.
create or replace function reprieve_row(p_row anyelement) returns jsonb
language plpgsql stable security invoker set search_path from current as $$
begin
    return to_jsonb(p_row);
exception when untranslatable_character or data_exception or invalid_text_representation then
    return reprieve_json(row_to_json(p_row)::text);
end
$$;

create or replace function reprieve_move(
    p_dead_letter_id uuid,
    p_source_table text,
    p_source_id uuid,
    p_failure_reason integer,
    p_error_text text,
    p_instance_id uuid,
    p_generation text,
    p_now timestamptz
) returns uuid
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_row jsonb;
    v_outbox wh_outbox;
    v_inbox wh_inbox;
    v_perspective wh_perspective_events;
    v_is_perspective boolean := p_source_table = 'wh_perspective_events';
    v_generation text := coalesce(reprieve_clean_text(p_generation), 'unversioned');
    v_error text := reprieve_clean_text(p_error_text);
    v_fingerprint text := reprieve_error_fingerprint(v_error);
    v_past record;
begin
    case p_source_table
    when 'wh_outbox' then
        delete from wh_outbox s where s.message_id = p_source_id returning s.* into v_outbox;
        if found then v_row := reprieve_row(v_outbox); end if;
    when 'wh_inbox' then
        delete from wh_inbox s where s.message_id = p_source_id returning s.* into v_inbox;
        if found then v_row := reprieve_row(v_inbox); end if;
    when 'wh_perspective_events' then
        delete from wh_perspective_events s where s.event_work_id = p_source_id returning s.* into v_perspective;
        if found then v_row := reprieve_row(v_perspective); end if;
    else
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('unknown source table %L', p_source_table),
            hint = 'expected one of wh_outbox, wh_inbox, wh_perspective_events';
    end case;
    if v_row is null then
        return null;
    end if;

    select
        coalesce(max(d.incarnation), 0) + 1 as incarnation,
        coalesce(max(d.recovery_attempts) filter (where d.generation = v_generation), 0) as recovery_attempts,
        max(d.last_recovery_at) filter (where d.generation = v_generation) as last_recovery_at
    into v_past
    from wh_dead_letters d
    where d.source_table = p_source_table and d.source_id = p_source_id;

    insert into wh_dead_letters (
        dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name,
        envelope,
        metadata, failure_reason, error_text, attempts_when_dlq, dead_lettered_at, dead_lettered_by,
        recovery_attempts, last_recovery_at, generation,
        retried_on_generations,
        error_fingerprint, error_fingerprint_version, source_row,
        source_created_at,
        source_position,
        incarnation)
    values (
        p_dead_letter_id, p_source_table, p_source_id,
        case when v_is_perspective then (v_row ->> 'stream_id')::uuid
            else nullif((v_row ->> 'stream_id')::uuid, '00000000-0000-0000-0000-000000000000') end,
        case when v_is_perspective then 'perspective_event' else v_row ->> 'message_type' end,
        case when p_source_table = 'wh_outbox' then v_row ->> 'destination' end,
        case when v_is_perspective then v_row ->> 'perspective_name' end,
        case when v_is_perspective
            then jsonb_build_object('event_id', v_row -> 'event_id', 'perspective_name', v_row -> 'perspective_name')
            else jsonb_build_object('event_data', v_row -> 'event_data', 'metadata', v_row -> 'metadata') end,
        case when v_is_perspective then coalesce(nullif(v_row -> 'metadata', 'null'), '{}')
            else coalesce(v_row -> 'metadata', '{}') end,
        coalesce(p_failure_reason, 99), v_error, coalesce((v_row ->> 'attempts')::integer, 0), p_now, p_instance_id,
        v_past.recovery_attempts, v_past.last_recovery_at, v_generation,
        reprieve_past_generations(p_source_table, p_source_id),
        v_fingerprint, case when v_fingerprint is not null then 1 end,
        case when v_is_perspective then v_row else v_row - '{event_data,metadata}'::text[] end,
        case when p_source_table = 'wh_inbox' then (v_row ->> 'received_at')::timestamptz
            else (v_row ->> 'created_at')::timestamptz end,
        case when v_is_perspective then (
            select e.commit_sequence from wh_event_store e where e.event_id = (v_row ->> 'event_id')::uuid) end,
        v_past.incarnation);
    return p_dead_letter_id;
end
$$;

-- The builds that have replayed earlier deaths of a message, in the order in which they first did.
create or replace function reprieve_past_generations(p_source_table text, p_source_id uuid) returns text[]
language plpgsql stable security invoker set search_path from current as $$
begin
    return coalesce((
        select array_agg(g.generation order by g.first)
        from (
            select r.generation, min(array[d.incarnation, r.position]) as first
            from (
                select i.incarnation, i.retried_on_generations from wh_dead_letters i
                where i.source_table = p_source_table and i.source_id = p_source_id) d,
                unnest(d.retried_on_generations) with ordinality r (generation, position)
            group by r.generation
        ) g), '{}');
end
$$;

create or replace function move_to_dead_letters(
    p_dead_letter_id uuid,
    p_source_table text,
    p_source_id uuid,
    p_failure_reason integer,
    p_error_text text,
    p_instance_id uuid,
    p_generation text
) returns uuid
language plpgsql volatile security invoker set search_path from current as $$
begin
    return reprieve_move(p_dead_letter_id, p_source_table, p_source_id, p_failure_reason, p_error_text, p_instance_id,
        p_generation, now());
end
$$;

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

create or replace function reprieve_recover(p_dead_letter_id uuid, p_now timestamptz) returns boolean
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
    return v_outcome = 'recovered';
end
$$;

create or replace function recover_dead_letter(p_dead_letter_id uuid) returns boolean
language plpgsql volatile security invoker set search_path from current as $$
begin
    return reprieve_recover(p_dead_letter_id, now());
end
$$;

create or replace function mark_dead_letter_holding(p_dead_letter_id uuid) returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    update wh_dead_letters d
    set recovery_status = 2, next_recovery_at = null, deferral = null, status_note = null
    where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null;
end
$$;

create or replace function mark_dead_letter_permanently_failed(p_dead_letter_id uuid) returns void
language plpgsql volatile security invoker set search_path from current as $$
begin
    update wh_dead_letters d
    set recovery_status = 4, next_recovery_at = null, deferral = null, status_note = null
    where d.dead_letter_id = p_dead_letter_id and d.recovered_at is null;
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
