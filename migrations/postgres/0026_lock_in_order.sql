-- What several functions lock at once is locked in the order of its ids, and what another session has locked already does
-- not count as something to be done.

-- Re-emits a batch and dissolves it. No row: the batch was lost. The rows are settled at once where they can be, else
-- apart, which says what is in the way of each. Those of p_in_order stand behind the earlier ones of their streams in p_ids;
-- if they are kept back they wait, at most so long.
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
    p_now timestamptz,
    p_in_order boolean[] default null,
    p_held_blocks boolean default false,
    p_wait_seconds double precision default 600
) returns table (dead_letter_id uuid, outcome text, problem text)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_streams text[];
begin
    -- Begin has committed the attempts durably. A settle that a crash of the server takes back leaves its rows in the batch,
    -- to be tried again at a further attempt; and whatever a consumer made of a row, it committed after this.
    perform set_config('synchronous_commit', 'off', true);
    if reprieve_settle_at_once(p_batch_id, p_ids, p_credits, p_decision_ids, p_decisions, p_policy_names,
        p_policy_digests, p_attempts, p_rules, p_inputs, p_notes, v_now)
    then
        return query select r.id, 'recovered', null::text from unnest(p_ids) as r (id);
    else
        select b.streams into v_streams from wh_recovery_batches b where b.batch_id = p_batch_id;
        return query
        select s.dead_letter_id, s.outcome, s.problem
        from reprieve_settle_apart(p_batch_id, p_ids, p_credits, p_failure_statuses, p_failure_next,
            p_failure_deferrals, p_decision_ids, p_decisions, p_policy_names, p_policy_digests, p_attempts, p_rules,
            p_inputs, p_notes, p_now, p_in_order, p_held_blocks, p_wait_seconds) s;
        -- Whoever settled all of them meanwhile passed what the batch had locked, such as a row put off behind one of them.
        if not found and v_streams <> '{}' then
            perform reprieve_wake_streams(v_streams, v_now);
        end if;
    end if;
end
$$;

-- Recovers all rows of a batch or does nothing: false. An error of the infrastructure ends the whole call.
create or replace function reprieve_settle_at_once(
    p_batch_id uuid,
    p_ids uuid[],
    p_credits text[],
    p_decision_ids uuid[],
    p_decisions text[],
    p_policy_names text[],
    p_policy_digests text[],
    p_attempts integer[],
    p_rules text[],
    p_inputs text[],
    p_notes text[],
    p_now timestamptz
) returns boolean
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_table text;
    v_tables text[];
    v_left integer := cardinality(p_ids);
    v_rule jsonb;
    v_streams text[];
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id and b.phase = 'recovering' and b.ids = p_ids
    returning b.streams into v_streams;
    if not found then
        return false;
    end if;
    v_tables := array(
        select distinct d.source_table
        from unnest(p_ids) i (id)
        join wh_dead_letters d on d.dead_letter_id = i.id);
    -- One table after the other would lock the rows in another order than that of their ids, in which everybody does.
    if cardinality(v_tables) > 1 then
        perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    end if;
    foreach v_table in array v_tables
    loop
        v_left := v_left - reprieve_restore(v_table, p_ids, p_credits, p_now);
    end loop;
    if v_left > 0 then
        raise sqlstate 'RP002';
    end if;
    -- Most batches have one rule: it is read once.
    if p_rules[1] = all (p_rules) then
        v_rule := p_rules[1];
    end if;
    insert into wh_dead_letter_decisions (decision_id, dead_letter_id, decided_at, decision, policy_name, policy_digest,
        attempt, rule, inputs, note)
    select r.decision_id, r.id, p_now, r.decision, r.policy_name, r.policy_digest, r.attempt,
        case when v_rule is null then r.rule::jsonb else v_rule end, r.inputs::jsonb,
        concat_ws('; ', r.note, 'recovered')
    from unnest(p_ids, p_decision_ids, p_decisions, p_policy_names, p_policy_digests, p_attempts, p_rules, p_inputs,
        p_notes)
        as r (id, decision_id, decision, policy_name, policy_digest, attempt, rule, inputs, note);
    if v_streams <> '{}' then
        perform reprieve_wake_streams(v_streams, p_now);
    end if;
    return true;
exception when others then
    if reprieve_is_infrastructure(sqlstate) then
        raise;
    end if;
    return false;
end
$$;

-- Dissolves the batches whose lease has ended, and makes those due that waited for a row that is held now. A host that was
-- killed leaves several: their rows are locked together, those of one batch after those of another could be a deadlock.
create or replace function reprieve_rescue(p_max_policy_errors integer, p_now timestamptz)
returns table (batches bigint, attempts bigint, policy_errors bigint)
language plpgsql volatile security invoker set search_path from current as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
    v_undecided uuid[];
begin
    select array_agg(i.id), array_agg(i.id) filter (where b.phase = 'deciding')
    into v_ids, v_undecided
    from (
        select x.phase, x.ids from wh_recovery_batches x where x.expires_at <= v_now for update skip locked
    ) b,
        unnest(b.ids) i (id);
    perform from wh_dead_letters d where d.dead_letter_id = any (v_ids) order by d.dead_letter_id for update;
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

-- Gives a batch back. Whoever is settling or dissolving it ends it in any case, and may take long.
create or replace function reprieve_release(p_batch_id uuid) returns void
language plpgsql volatile security invoker set search_path from current set lock_timeout = '2s' as $$
begin
    delete from wh_recovery_batches b where b.batch_id = p_batch_id;
end
$$;

-- Holds rows that the host cannot read, and makes those due that waited for one of them.
create or replace function reprieve_hold_unreadable(p_ids uuid[], p_notes text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path from current as $$
begin
    perform from wh_dead_letters d where d.dead_letter_id = any (p_ids) order by d.dead_letter_id for update;
    update wh_dead_letters d
    set recovery_status = 2, next_recovery_at = null, deferral = null, status_note = u.note
    from unnest(p_ids, p_notes) as u (id, note)
    where d.dead_letter_id = u.id and d.recovered_at is null;
    return reprieve_wake_behind(p_ids, p_now);
end
$$;

-- Whether something can be done now, and when the next row falls due. A batch whose lease has ended is something to be done
-- unless it is being settled or dissolved: hosts would ask again without a pause. Only the front of what is due is looked
-- at: a host that asks while another one works through a long stream would else read all of it each time.
create or replace function reprieve_due(p_generation text, p_now timestamptz)
returns table (now timestamptz, due_now boolean, next_at timestamptz)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
    return query
    select v_now,
        exists (select from wh_recovery_batches b where b.expires_at <= v_now for update skip locked)
        or exists (
            select from wh_dead_letters d
            where d.operator_disposition = 1 and d.recovered_at is null
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b))
        or exists (
            select from (
                select d.dead_letter_id, reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as stream_key
                from wh_dead_letters d
                where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                    and d.operator_disposition not in (2, 3)
                    and coalesce(d.next_recovery_at, d.dead_lettered_at) <= v_now
                    and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                        or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id
                limit 5000
            ) f
            where f.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b)
                and coalesce(f.stream_key, '') not in (select unnest(b.streams) from wh_recovery_batches b))
        or (
            select true from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and d.next_recovery_at is null and d.dead_lettered_at > v_now
                and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                    or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b)
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(b.streams) from wh_recovery_batches b)
            order by d.dead_lettered_at, d.dead_letter_id
            limit 1) is not null,
        least(
            (select d.next_recovery_at from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3) and d.next_recovery_at is not null
                and coalesce(d.next_recovery_at, d.dead_lettered_at) > v_now
            order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id
            limit 1),
            (select min(b.expires_at) from wh_recovery_batches b where b.expires_at > v_now));
end
$$;
