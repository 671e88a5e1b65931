-- Carries out what was decided about a batch. NULL: the batch was lost. Else the ids of the endings that were applied:
-- one that waits for a row that has gone out of its way since is not. What policies said stands once for all rows that
-- share it: p_ruling_places has the place of each in p_policy_names, p_policy_digests and p_rules, from 1 on, and NULL
-- for one that is not recorded. So it is in the functions that settle.
create or replace function reprieve_begin(
    p_batch_id uuid,
    p_recover uuid[],
    p_ids uuid[],
    p_seen_next timestamptz[],
    p_seen_credits text[],
    p_statuses integer[],
    p_next timestamptz[],
    p_deferrals text[],
    p_status_notes text[],
    p_policy_errors integer[],
    p_policy_error_digests text[],
    p_decisions text[],
    p_decision_ids uuid[],
    p_attempts integer[],
    p_inputs text[],
    p_ruling_places integer[],
    p_policy_names text[],
    p_policy_digests text[],
    p_rules text[],
    p_now timestamptz,
    p_seen_predecessors uuid[] default null,
    p_held_blocks boolean default false
) returns uuid[]
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ended uuid[] := '{}';
    v_out_of_the_way uuid[];
    v_rules jsonb[];
begin
    perform from wh_recovery_batches b where b.batch_id = p_batch_id and b.phase = 'deciding' for update;
    if not found then
        return null;
    end if;
    if cardinality(p_ids) > 0 then
        -- Those that others wait for, too: whoever is about to settle one comes first, and is seen, or comes later, and
        -- sees who waits.
        perform from wh_dead_letters d where d.dead_letter_id = any (p_ids || p_seen_predecessors)
        order by d.dead_letter_id for update;
        v_rules := p_rules::jsonb[];
        with ended as (
            update wh_dead_letters d
            set recovery_status = e.status,
                next_recovery_at = e.next_recovery_at,
                deferral = e.deferral,
                status_note = e.status_note,
                policy_errors = e.policy_errors,
                policy_error_digest = e.policy_error_digest
            from unnest(p_ids, p_seen_next, p_seen_credits, p_statuses, p_next, p_deferrals, p_status_notes,
                p_policy_errors, p_policy_error_digests, p_seen_predecessors, p_decisions, p_decision_ids, p_attempts,
                p_inputs, p_ruling_places)
                as e (id, seen_next, seen_credit, status, next_recovery_at, deferral, status_note, policy_errors,
                    policy_error_digest, predecessor, decision, decision_id, attempt, inputs, place)
            where d.dead_letter_id = e.id and d.recovered_at is null and d.recovery_status in (0, 1)
                and d.operator_disposition not in (2, 3)
                and d.next_recovery_at is not distinct from e.seen_next
                and d.replay_credit is not distinct from e.seen_credit
                and (e.predecessor is null or exists (
                    select from wh_dead_letters s
                    where s.dead_letter_id = e.predecessor and s.recovered_at is null
                        and s.recovery_status not in (3, 4) and s.operator_disposition <> 3
                        and (p_held_blocks or s.recovery_status <> 2 and s.operator_disposition <> 2)))
            returning d.dead_letter_id, d.recovery_status, d.stream_id, e.decision, e.decision_id, e.attempt, e.inputs,
                e.place, v_rules[e.place] as rule, e.status_note
        ),
        recorded as (
            insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, policy_name,
                policy_digest, attempt, rule, inputs, note)
            select e.decision_id, e.dead_letter_id, v_now, e.decision, p_policy_names[e.place],
                p_policy_digests[e.place], e.attempt, e.rule, e.inputs::jsonb, e.status_note
            from ended e
            where e.place is not null
        )
        select coalesce(array_agg(e.dead_letter_id), '{}'),
            array_agg(e.dead_letter_id) filter (
                where e.stream_id is not null and (e.recovery_status <> 0 or e.rule ->> 'stream_mode' = 'per-message'))
        into v_ended, v_out_of_the_way
        from ended e;
        if v_out_of_the_way is not null then
            perform reprieve_wake_behind(v_out_of_the_way, v_now);
        end if;
    end if;
    if cardinality(p_recover) > 0 then
        -- The streams of the rows that are let go are free for others from now on.
        update wh_recovery_batches b
        set phase = 'recovering',
            ids = p_recover,
            streams = case
                when b.streams = '{}' or cardinality(b.ids) = cardinality(p_recover) then b.streams
                else reprieve_streams_of(p_recover) end
        where b.batch_id = p_batch_id;
    else
        delete from wh_recovery_batches b where b.batch_id = p_batch_id;
    end if;
    return v_ended;
end
$$;
