-- What several functions lock at once is locked in the order of its ids.

-- Recovers all rows of a batch, which go back to p_source_tables, or does nothing: false. An error of the
-- infrastructure ends the whole call.
create or replace function reprieve_settle_at_once(
    p_batch_id uuid,
    p_ids uuid[],
    p_source_tables text[],
    p_credits text[],
    p_decision_ids uuid[],
    p_attempts integer[],
    p_inputs text[],
    p_ruling_places integer[],
    p_policy_names text[],
    p_policy_digests text[],
    p_rules text[],
    p_now timestamptz
) returns boolean
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_table text;
    v_left integer := cardinality(p_ids);
    v_rules jsonb[];
    v_streams text[];
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id and b.phase = 'recovering' and b.ids = p_ids
    returning b.streams into v_streams;
    if not found then
        return false;
    end if;
    -- One table after the other would lock the rows in another order than that of their ids, in which everybody does.
    if cardinality(p_source_tables) > 1 then
        perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    end if;
    foreach v_table in array p_source_tables
    loop
        v_left := v_left - reprieve_restore(v_table, p_ids, p_credits, p_now);
    end loop;
    if v_left > 0 then
        raise sqlstate 'RP002';
    end if;
    v_rules := p_rules::jsonb[];
    insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, policy_name, policy_digest,
        attempt, rule, inputs, note)
    select r.decision_id, r.id, p_now, 'recover', p_policy_names[r.place], p_policy_digests[r.place], r.attempt,
        v_rules[r.place], r.inputs::jsonb, 'recovered'
    from unnest(p_ids, p_decision_ids, p_attempts, p_inputs, p_ruling_places)
        as r (id, decision_id, attempt, inputs, place);
    if v_streams <> '{}' then
        perform reprieve_wake_streams(v_streams, p_now);
    end if;
    -- What would be refused at the commit is refused here, once all rows are there that may refer to each other.
    set constraints all immediate;
    return true;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    return false;
end
$$;

-- Re-emits a batch and dissolves it. No row: the batch was lost. The rows are settled at once where they can be, which
-- one row without an id says of all of them, else apart, which says what is in the way of each. Those of p_in_order
-- stand behind the earlier ones of their streams in p_ids; if they are kept back they wait, at most so long. With a
-- p_refusal nothing is tried: all of them fail for it.
create or replace function reprieve_settle(
    p_batch_id uuid,
    p_ids uuid[],
    p_source_tables text[],
    p_credits text[],
    p_failure_statuses integer[],
    p_failure_next timestamptz[],
    p_failure_deferrals text[],
    p_decision_ids uuid[],
    p_attempts integer[],
    p_inputs text[],
    p_ruling_places integer[],
    p_policy_names text[],
    p_policy_digests text[],
    p_rules text[],
    p_now timestamptz,
    p_in_order boolean[],
    p_held_blocks boolean,
    p_wait_seconds double precision,
    p_refusal text default null
) returns table (dead_letter_id uuid, outcome text, problem text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_streams text[];
begin
    -- Begin has committed the attempts durably. A settle that a crash of the server takes back leaves its rows in the
    -- batch, to be tried again at a further attempt; and whatever a consumer made of a row, it committed after this.
    perform set_config('synchronous_commit', 'off', true);
    if p_refusal is null and reprieve_settle_at_once(p_batch_id, p_ids, p_source_tables, p_credits, p_decision_ids,
        p_attempts, p_inputs, p_ruling_places, p_policy_names, p_policy_digests, p_rules, v_now)
    then
        return query select null::uuid, 'recovered', null::text;
    else
        -- Where the row that it is about can be told from the others.
        set constraints all immediate;
        select b.streams into v_streams from wh_recovery_batches b where b.batch_id = p_batch_id;
        return query
        select s.dead_letter_id, s.outcome, s.problem
        from reprieve_settle_apart(p_batch_id, p_ids, p_credits, p_failure_statuses, p_failure_next,
            p_failure_deferrals, p_decision_ids, p_attempts, p_inputs, p_ruling_places, p_policy_names, p_policy_digests,
            p_rules, p_now, p_in_order, p_held_blocks, p_wait_seconds, p_refusal) s;
        -- Whoever settled all of them meanwhile passed what the batch had locked, such as a row put off behind one of
        -- them.
        if not found and v_streams <> '{}' then
            perform reprieve_wake_streams(v_streams, v_now);
        end if;
    end if;
end
$$;
