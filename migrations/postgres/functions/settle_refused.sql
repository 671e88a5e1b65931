-- Batches of which the database refuses a dead letter's own change: a trigger, a rule that the row broke before it was
-- made, a damaged page.

-- What the database says against settling one row by itself, NULL when nothing; the row is left as it is.
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

-- Settles such a batch: each row is tried by itself first. One that is refused fails for it; one that may not fail
-- either stays in the batch until its lease ends, and is told as unsettled.
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
    v_problem text;
begin
    for n in 1 .. cardinality(p_ids) loop
        v_problem := null;
        for v_tries in 1 .. 2 loop
            v_problem := reprieve_refusal(p_batch_id, p_ids[n:n], p_credits[n:n], p_failure_statuses[n:n],
                p_failure_next[n:n], p_failure_deferrals[n:n], p_decision_ids[n:n], p_attempts[n:n], p_inputs[n:n],
                p_ruling_places[n:n], p_policy_names, p_policy_digests, p_rules, p_now, v_refused, v_refusals);
            exit when v_problem is null;
            if v_tries = 1 then
                v_refused := v_refused || p_ids[n];
                v_refusals := v_refusals || v_problem;
            else
                v_left := v_left || p_ids[n];
            end if;
        end loop;
    end loop;
    return query
    select s.dead_letter_id, s.outcome, s.problem
    from reprieve_settle_apart(p_batch_id, p_ids, p_credits, p_failure_statuses, p_failure_next, p_failure_deferrals,
        p_decision_ids, p_attempts, p_inputs, p_ruling_places, p_policy_names, p_policy_digests, p_rules, p_now,
        p_in_order, p_held_blocks, p_wait_seconds, v_refused, v_refusals, v_left) s;
end
$$;
