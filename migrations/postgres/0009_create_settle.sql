-- Re-emits a batch and dissolves it. No row: the batch was lost. A dead letter that somebody else settled meanwhile is
-- left out of the answer. One whose message has died again since is held; that takes no attempt, as it takes none when
-- a claim finds out.
create or replace function reprieve_settle(
    p_batch_id uuid,
    p_ids uuid[],
    p_credits text[],
    p_failure_statuses integer[],
    p_failure_next timestamptz[],
    p_failure_deferrals text[],
    p_decision_ids uuid[],
    p_decisions text[],
    p_policy_names text[],
    p_policy_digests text[],
    p_attempts integer[],
    p_rules text[],
    p_inputs text[],
    p_notes text[],
    p_now timestamptz
) returns table (dead_letter_id uuid, outcome text, problem text)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_batch uuid[];
    v_locked record;
    v_open uuid[];
    v_superseded uuid[] := '{}';
    v_newer uuid[];
    v_inserted uuid[];
    v_failed uuid[];
    v_reasons text[];
    v_outcomes text[];
    v_problems text[];
    v_notes text[];
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id and b.phase = 'recovering' returning b.ids into v_batch;
    if not found then
        return;
    end if;
    select array_agg(l.dead_letter_id) as ids, array_agg(l.source_table) as source_tables,
        array_agg(l.source_id) as source_ids, array_agg(l.incarnation) as incarnations
    into v_locked
    from (
        select d.dead_letter_id, d.source_table, d.source_id, d.incarnation from wh_dead_letters d
        where d.dead_letter_id = any (v_batch) and d.recovered_at is null and d.recovery_status in (0, 1)
            and d.operator_disposition not in (2, 3)
        order by d.dead_letter_id
        for update
    ) l;
    v_open := p_ids;
    if v_batch <> p_ids or cardinality(v_locked.ids) is distinct from cardinality(p_ids) then
        v_open := array(
            select a.id from unnest(p_ids) with ordinality a (id, n) where a.id = any (v_locked.ids) order by a.n);
    end if;
    if v_open = '{}' then
        return;
    end if;
    loop
        begin
            select r.p_inserted, r.p_failed, r.p_problems into v_inserted, v_failed, v_reasons
            from reprieve_reemit_apart(v_open) r;
            -- Not before the inserts: one of them may have waited for the move of a newer death to be committed.
            v_newer := array(
                select o.id
                from unnest(v_locked.ids, v_locked.source_tables, v_locked.source_ids, v_locked.incarnations)
                    as o (id, source_table, source_id, incarnation)
                where exists (
                    select from wh_dead_letters n
                    where n.source_table = o.source_table and n.source_id = o.source_id
                        and n.incarnation > o.incarnation));
            exit when v_newer <@ v_superseded;
            v_superseded := v_newer;
            raise sqlstate 'RP001';
        exception when sqlstate 'RP001' then
            v_open := array(
                select a.id from unnest(v_open) with ordinality a (id, n) where a.id <> all (v_superseded) order by a.n);
            v_inserted := '{}';
            v_failed := '{}';
            v_reasons := '{}';
            exit when v_open = '{}';
        end;
    end loop;

    if cardinality(v_inserted) = cardinality(p_ids) then
        v_outcomes := array_fill('recovered'::text, array[cardinality(p_ids)]);
        v_problems := array_fill(null::text, array[cardinality(p_ids)]);
        v_notes := v_problems;
    else
        select array_agg(r.outcome order by r.n), array_agg(r.problem order by r.n),
            array_agg(reprieve_outcome_note(r.outcome, r.source_table, r.problem) order by r.n)
        into v_outcomes, v_problems, v_notes
        from (
            select a.n, d.source_table, coalesce(f.problem, reprieve_superseded_by(s.id)::text) as problem,
                case
                    when s.id is not null then 'superseded'
                    when f.id is not null then 'failed'
                    when a.id = any (v_inserted) then 'recovered'
                    when a.id = any (v_open) then reprieve_why_not_inserted(a.id)
                end as outcome
            from unnest(p_ids) with ordinality a (id, n)
            left join wh_dead_letters d on d.dead_letter_id = a.id
            left join unnest(v_superseded) s (id) on s.id = a.id
            left join unnest(v_failed, v_reasons) f (id, problem) on f.id = a.id
        ) r;
    end if;

    update wh_dead_letters d
    set recovery_status = case a.outcome
            when 'recovered' then 3
            when 'failed' then case when d.replay_credit <> coalesce(a.credit, '') then 0 else a.failure_status end
            else 2 end,
        recovered_at = case when a.outcome = 'recovered' then v_now end,
        last_recovery_at = v_now,
        -- A credit that was granted meanwhile is kept for an attempt of its own.
        next_recovery_at = case when a.outcome = 'failed' then
            case when d.replay_credit <> coalesce(a.credit, '') then v_now else a.failure_next end end,
        deferral = case when a.outcome = 'failed' then
            case when d.replay_credit <> coalesce(a.credit, '') then null else a.failure_deferral end end,
        recovery_attempts = d.recovery_attempts + case when a.credit is null then 1 else 0 end,
        replay_credit = case when a.outcome = 'failed' and d.replay_credit <> coalesce(a.credit, '') then d.replay_credit end,
        replay_credit_at = case
            when a.outcome = 'failed' and d.replay_credit <> coalesce(a.credit, '') then d.replay_credit_at end,
        retried_on_generations = case
            when a.outcome <> 'recovered' or d.generation = any (d.retried_on_generations)
            then d.retried_on_generations
            else array_append(d.retried_on_generations, d.generation) end,
        operator_disposition = case when a.outcome = 'recovered' then 0 else d.operator_disposition end,
        policy_errors = 0,
        policy_error_digest = null,
        status_note = a.note
    from unnest(p_ids, p_credits, p_failure_statuses, p_failure_next, p_failure_deferrals, v_outcomes, v_notes)
        as a (id, credit, failure_status, failure_next, failure_deferral, outcome, note)
    where d.dead_letter_id = a.id and a.outcome <> 'superseded';
    if v_superseded <> '{}' then
        update wh_dead_letters d
        set recovery_status = 2, next_recovery_at = null, deferral = null, policy_errors = 0, policy_error_digest = null,
            status_note = a.note
        from unnest(p_ids, v_outcomes, v_notes) as a (id, outcome, note)
        where d.dead_letter_id = a.id and a.outcome = 'superseded';
    end if;

    insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, policy_name, policy_digest,
        attempt, rule, inputs, note)
    select r.decision_id, r.id, v_now, r.decision, r.policy_name, r.policy_digest, r.attempt, r.rule::jsonb,
        r.inputs::jsonb, concat_ws('; ', r.note, coalesce(r.outcome_note, r.outcome))
    from unnest(p_ids, p_decision_ids, p_decisions, p_policy_names, p_policy_digests, p_attempts, p_rules, p_inputs,
        p_notes, v_outcomes, v_notes)
        as r (id, decision_id, decision, policy_name, policy_digest, attempt, rule, inputs, note, outcome, outcome_note)
    where r.outcome is not null;

    return query
    select r.id, r.outcome, r.problem from unnest(p_ids, v_outcomes, v_problems) as r (id, outcome, problem)
    where r.outcome is not null;
end
$$;
