-- Batches of which the database refuses a dead letter's own change: a trigger does, or a rule that the row broke before
-- it was made.

-- What the database says against settling some of the rows by themselves, NULL when nothing; they are left as they are.
create or replace function reprieve_refusal(
    p_batch_id uuid,
    p_ids uuid[],
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
    p_refused uuid[],
    p_refusals text[]
) returns text
language plpgsql volatile security invoker set search_path from current as $$
begin
    perform from reprieve_settle_apart(p_batch_id, p_ids, p_credits, p_failure_statuses, p_failure_next,
        p_failure_deferrals, p_decision_ids, p_attempts, p_inputs, p_ruling_places, p_policy_names, p_policy_digests,
        p_rules, p_now, p_refused => p_refused, p_refusals => p_refusals);
    raise sqlstate 'RP004';
exception
    when sqlstate 'RP004' then
        return null;
    when others then
        if reprieve_is_infrastructure(sqlstate) then
            raise;
        end if;
        return sqlerrm;
end
$$;

-- Settles such a batch. A row that is refused fails for it; one that may not fail either stays in a batch until its lease
-- ends, and is told as unsettled.
create or replace function reprieve_settle_refused(
    p_batch_id uuid,
    p_ids uuid[],
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
    p_wait_seconds double precision
) returns table (dead_letter_id uuid, outcome text, problem text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_refused uuid[] := '{}';
    v_refusals text[] := '{}';
    v_left uuid[] := '{}';
    v_from integer[] := array[1];
    v_to integer[] := array[cardinality(p_ids)];
    v_first integer;
    v_last integer;
    v_problem text;
begin
    -- What is tried is undone again, but not these locks: each try would write them anew.
    perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    -- What is refused is halved until the rows stand alone. Each row is looked at again after it was made to fail.
    while cardinality(v_from) > 0 loop
        v_first := v_from[1];
        v_last := v_to[1];
        v_problem := reprieve_refusal(p_batch_id, p_ids[v_first:v_last], p_credits[v_first:v_last],
            p_failure_statuses[v_first:v_last], p_failure_next[v_first:v_last], p_failure_deferrals[v_first:v_last],
            p_decision_ids[v_first:v_last], p_attempts[v_first:v_last], p_inputs[v_first:v_last],
            p_ruling_places[v_first:v_last], p_policy_names, p_policy_digests, p_rules, p_now, v_refused, v_refusals);
        if v_problem is null or v_first = v_last and p_ids[v_first] = any (v_refused) then
            if v_problem is not null then
                v_left := v_left || p_ids[v_first];
            end if;
            v_from := v_from[2:];
            v_to := v_to[2:];
        elsif v_first = v_last then
            v_refused := v_refused || p_ids[v_first];
            v_refusals := v_refusals || v_problem;
        else
            v_from := array[v_first, (v_first + v_last) / 2 + 1] || v_from[2:];
            v_to := array[(v_first + v_last) / 2, v_last] || v_to[2:];
        end if;
    end loop;
    return query
    select s.dead_letter_id, s.outcome, s.problem
    from reprieve_settle_apart(p_batch_id, p_ids, p_credits, p_failure_statuses, p_failure_next, p_failure_deferrals,
        p_decision_ids, p_attempts, p_inputs, p_ruling_places, p_policy_names, p_policy_digests, p_rules, p_now,
        p_in_order, p_held_blocks, p_wait_seconds, v_refused, v_refusals, v_left) s;
end
$$;
