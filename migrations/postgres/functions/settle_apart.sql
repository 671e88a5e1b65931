-- Re-emits a batch and dissolves it, each row for itself. No row: the batch was lost. A dead letter that somebody else
-- settled meanwhile is left out of the answer. One whose message has died again since is held, and one behind a row of
-- its stream that stays in the way waits: that takes no attempt, as it takes none when a claim finds out. With a
-- p_refusal all rows fail for it, without a try.
create or replace function reprieve_settle_apart(
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
    p_in_order boolean[] default null,
    p_held_blocks boolean default false,
    p_wait_seconds double precision default 600,
    p_refusal text default null
) returns table (dead_letter_id uuid, outcome text, problem text)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_batch record;
    v_written integer;
    v_locked record;
    v_open uuid[];
    v_wait_until timestamptz := v_now + make_interval(secs => p_wait_seconds);
    v_keys text[];
    v_fails_in_the_way boolean[];
    v_kept_back uuid[];
    v_behind_held uuid[] := '{}';
    v_superseded uuid[] := '{}';
    v_newer uuid[];
    v_inserted uuid[];
    v_failed uuid[];
    v_reasons text[];
    v_outcomes text[];
    v_problems text[];
    v_notes text[];
    v_rules jsonb[];
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id and b.phase = 'recovering'
    returning b.ids, b.streams into v_batch;
    if not found then
        return;
    end if;
    select array_agg(l.dead_letter_id) as ids, array_agg(l.source_table) as source_tables,
        array_agg(l.source_id) as source_ids, array_agg(l.incarnation) as incarnations,
        array_agg(l.replay_credit) as credits,
        array_agg(reprieve_stream_key(l.source_table, l.stream_id, l.perspective_name)) as keys
    into v_locked
    from (
        select d.dead_letter_id, d.source_table, d.source_id, d.incarnation, d.stream_id, d.perspective_name,
            d.replay_credit
        from wh_dead_letters d
        where d.dead_letter_id = any (v_batch.ids) and d.recovered_at is null and d.recovery_status in (0, 1)
            and d.operator_disposition not in (2, 3)
        order by d.dead_letter_id
        for update
    ) l;
    v_open := p_ids;
    if v_batch.ids <> p_ids or cardinality(v_locked.ids) is distinct from cardinality(p_ids) then
        v_open := array(
            select a.id from unnest(p_ids) with ordinality a (id, n) where a.id = any (v_locked.ids) order by a.n);
    end if;
    if v_open = '{}' then
        return;
    end if;
    if p_held_blocks and cardinality(v_open) < cardinality(p_ids) then
        -- Behind a row that somebody has held since the claim.
        v_behind_held := array(
            select a.id
            from unnest(p_ids, p_in_order) with ordinality a (id, in_order, n)
            join wh_dead_letters d on d.dead_letter_id = a.id
            where a.in_order and a.id = any (v_open) and exists (
                select from unnest(p_ids, p_in_order) with ordinality b (id, in_order, n)
                join wh_dead_letters h on h.dead_letter_id = b.id
                where b.in_order and b.n < a.n and b.id <> all (v_open) and h.recovered_at is null
                    and h.recovery_status not in (3, 4) and h.operator_disposition <> 3
                    and reprieve_stream_key(h.source_table, h.stream_id, h.perspective_name)
                        = reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name)));
        v_open := array(
            select a.id from unnest(v_open) with ordinality a (id, n) where a.id <> all (v_behind_held) order by a.n);
    end if;
    loop
        -- What fails is in the way of those behind it when it goes back to Pending, or is held where that counts.
        select array_agg(case when a.in_order then l.key end order by o.n),
            array_agg(
                a.status = 0 or a.status = 2 and p_held_blocks or l.credit <> coalesce(a.credit, '') order by o.n)
        into v_keys, v_fails_in_the_way
        from unnest(v_open) with ordinality o (id, n)
        join unnest(p_ids, p_credits, p_failure_statuses, p_in_order) as a (id, credit, status, in_order) on a.id = o.id
        join unnest(v_locked.ids, v_locked.keys, v_locked.credits) as l (id, key, credit) on l.id = o.id;
        begin
            select r.p_inserted, r.p_failed, r.p_problems, r.p_kept_back
            into v_inserted, v_failed, v_reasons, v_kept_back
            from reprieve_reemit_apart(v_open, v_keys, v_fails_in_the_way, p_held_blocks, p_refusal) r;
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
            v_keys := '{}';
            v_fails_in_the_way := '{}';
            v_inserted := '{}';
            v_failed := '{}';
            v_reasons := '{}';
            v_kept_back := '{}';
            exit when v_open = '{}';
        end;
    end loop;

    v_kept_back := v_kept_back || v_behind_held;
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
                    when a.id = any (v_kept_back) then 'blocked'
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
        replay_credit =
            case when a.outcome = 'failed' and d.replay_credit <> coalesce(a.credit, '') then d.replay_credit end,
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
    where d.dead_letter_id = a.id and a.outcome not in ('superseded', 'blocked');
    get diagnostics v_written = row_count;
    -- A trigger may pass a change over in silence: what was inserted would be inserted again and again.
    if v_written < (select count(*) from unnest(v_outcomes) o (outcome) where o.outcome not in ('superseded', 'blocked'))
    then
        raise exception 'a change of a dead letter was not carried out, and nothing said why';
    end if;
    if v_superseded <> '{}' then
        update wh_dead_letters d
        set recovery_status = 2, next_recovery_at = null, deferral = null, policy_errors = 0, policy_error_digest = null,
            status_note = a.note
        from unnest(p_ids, v_outcomes, v_notes) as a (id, outcome, note)
        where d.dead_letter_id = a.id and a.outcome = 'superseded';
        get diagnostics v_written = row_count;
        if v_written < (select count(*) from unnest(v_outcomes) o (outcome) where o.outcome = 'superseded') then
            raise exception 'a change of a dead letter was not carried out, and nothing said why';
        end if;
    end if;

    if v_kept_back <> '{}' then
        select array_agg(r.outcome order by r.n), array_agg(r.problem order by r.n), array_agg(r.note order by r.n)
        into v_outcomes, v_problems, v_notes
        from (
            select a.n, a.outcome, coalesce(o.predecessor::text, a.problem) as problem,
                case when a.outcome = 'blocked' then reprieve_outcome_note('blocked', null, o.predecessor::text)
                    else a.note end as note
            from unnest(p_ids, v_outcomes, v_problems, v_notes) with ordinality a (id, outcome, problem, note, n)
            left join reprieve_stream_order(v_kept_back, '{}', v_open, p_held_blocks) o on o.dead_letter_id = a.id
        ) r;
        update wh_dead_letters d
        set next_recovery_at = case
                when o.predecessor is null then v_now
                else least(greatest(coalesce(o.predecessor_due_at, v_wait_until), v_now), v_wait_until) end,
            deferral = 'stream', policy_errors = 0, policy_error_digest = null,
            status_note = reprieve_outcome_note('blocked', null, o.predecessor::text)
        from reprieve_stream_order(v_kept_back, '{}', v_open, p_held_blocks) o
        where d.dead_letter_id = o.dead_letter_id;
        get diagnostics v_written = row_count;
        if v_written < cardinality(v_kept_back) then
            raise exception 'a change of a dead letter was not carried out, and nothing said why';
        end if;
    end if;
    -- Not those behind what has just stayed in the way.
    perform reprieve_wake_streams(
        array(
            select k.key from unnest(v_batch.streams) k (key)
            where k.key not in (
                select b.key
                from unnest(v_open, v_keys, v_fails_in_the_way) as b (id, key, fails)
                where b.key is not null
                    and case
                        when b.id = any (v_inserted) then false
                        when b.id = any (v_failed) then b.fails
                        else b.id = any (v_kept_back) or p_held_blocks end)),
        v_now)
    where v_batch.streams <> '{}';

    v_rules := p_rules::jsonb[];
    insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, policy_name, policy_digest,
        attempt, rule, inputs, note)
    select r.decision_id, r.id, v_now, 'recover', p_policy_names[r.place], p_policy_digests[r.place], r.attempt,
        v_rules[r.place], r.inputs::jsonb, coalesce(r.note, r.outcome)
    from unnest(p_ids, p_decision_ids, p_attempts, p_inputs, p_ruling_places, v_outcomes, v_notes)
        as r (id, decision_id, attempt, inputs, place, outcome, note)
    where r.outcome is not null;

    return query
    select r.id, r.outcome, r.problem from unnest(p_ids, v_outcomes, v_problems) as r (id, outcome, problem)
    where r.outcome is not null;
end
$$;
