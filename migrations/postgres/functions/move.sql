-- Dead-lettering.

-- A row as jsonb, whatever its columns hold.
create or replace function reprieve_row(p_row anyelement) returns jsonb
language plpgsql stable security invoker set search_path from current as $$
begin
    return to_jsonb(p_row);
exception when untranslatable_character or data_exception or invalid_text_representation then
    return reprieve_json(row_to_json(p_row)::text);
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
        coalesce(p_failure_reason, 99), v_error, greatest((v_row ->> 'attempts')::integer, 0), p_now, p_instance_id,
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
