-- Claims due rows. The lock makes claims follow one another; the statement after it has a snapshot of its own, which
-- sees the batch that the one before committed. The settings keep the plan on the range of the due index. A newer death
-- is looked for among those that are not a message's first, which have an index of their own.
create or replace function reprieve_claim(
    p_batch_id uuid,
    p_owner uuid,
    p_generation text,
    p_max integer,
    p_after_due_at timestamptz,
    p_after_dead_lettered_at timestamptz,
    p_after_id uuid,
    p_lease_seconds double precision,
    p_now timestamptz
) returns table (
    claimed_at timestamptz, due_at timestamptz, superseded_by uuid,
    dead_letter_id uuid, source_table text, source_id uuid, stream_id uuid, message_type text, destination text,
    perspective_name text, metadata jsonb, failure_reason integer, error_text text, attempts_when_dlq integer,
    dead_lettered_at timestamptz, dead_lettered_by uuid, recovery_status integer, recovery_attempts integer,
    last_recovery_at timestamptz, next_recovery_at timestamptz, recovered_at timestamptz, generation text,
    retried_on_generations text[], operator_disposition integer, operator_notes text, operator_actor text,
    error_fingerprint varchar, error_fingerprint_version smallint, source_created_at timestamptz,
    source_position bigint, incarnation integer, replay_credit text, replay_credit_at timestamptz, deferral text,
    policy_errors integer, policy_error_digest text, status_note text)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    -- A claim that a crash of the server forgets has done nothing yet: its host finds the batch lost.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(hashtextextended('reprieve claim ' || current_schema(), 0));
    v_now := coalesce(p_now, clock_timestamp());
    return query
    with due as materialized (
        -- Rows without a due time are due at once, even those that seem to have died in the future: a second range.
        select f.row_place, f.dead_letter_id, f.due_at, f.stream_key, row_number() over () as place
        from (
            (select d.ctid as row_place, d.dead_letter_id, coalesce(d.next_recovery_at, d.dead_lettered_at) as due_at,
                reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as stream_key
            from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id) > (
                    coalesce(p_after_due_at, '-infinity'), coalesce(p_after_dead_lettered_at, '-infinity'),
                    coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
                and coalesce(d.next_recovery_at, d.dead_lettered_at) <= v_now
                and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                    or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b)
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(b.streams) from wh_recovery_batches b)
            order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id
            limit p_max)
            union all
            (select d.ctid, d.dead_letter_id, d.dead_lettered_at,
                reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name)
            from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and d.next_recovery_at is null
                and (d.dead_lettered_at, d.dead_letter_id) > (greatest(v_now, p_after_due_at),
                    case when p_after_due_at > v_now then p_after_id else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end)
                and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                    or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b)
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(b.streams) from wh_recovery_batches b)
            order by d.dead_lettered_at, d.dead_letter_id
            limit p_max)
            limit p_max
        ) f
    ),
    batch as (
        insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, started_at, expires_at)
        select p_batch_id, p_owner, p_generation, 'deciding', array_agg(f.dead_letter_id order by f.place),
            coalesce(array_agg(distinct f.stream_key) filter (where f.stream_key is not null), '{}'),
            v_now, v_now + make_interval(secs => p_lease_seconds)
        from due f
        having count(*) > 0
    )
    select v_now, f.due_at, (
            select n.dead_letter_id from wh_dead_letters n
            where n.source_table = d.source_table and n.source_id = d.source_id and n.incarnation > d.incarnation
                and n.incarnation > 1
            order by n.incarnation desc
            limit 1),
        d.dead_letter_id, d.source_table, d.source_id, d.stream_id, d.message_type, d.destination,
        d.perspective_name, d.metadata, d.failure_reason, d.error_text, d.attempts_when_dlq,
        d.dead_lettered_at, d.dead_lettered_by, d.recovery_status, d.recovery_attempts,
        d.last_recovery_at, d.next_recovery_at, d.recovered_at, d.generation,
        d.retried_on_generations, d.operator_disposition, d.operator_notes, d.operator_actor,
        d.error_fingerprint, d.error_fingerprint_version, d.source_created_at,
        d.source_position, d.incarnation, d.replay_credit, d.replay_credit_at, d.deferral,
        d.policy_errors, d.policy_error_digest, d.status_note
    from due f
    join wh_dead_letters d on d.ctid = f.row_place
    order by f.place;
    if not found then
        claimed_at := v_now;
        return next;
    end if;
end
$$;

-- Claims due rows, as reprieve_claim does for hosts of an older version, and says for each how many due rows before it were passed since this host has them, or their
-- streams, in another batch: a pass goes on behind the first of these, so that they are met again in their order. Beyond
-- them it would meet the later rows of their streams first. Nothing is read further than the last row that is claimed.
create or replace function reprieve_claim_in_pass(
    p_batch_id uuid,
    p_owner uuid,
    p_generation text,
    p_max integer,
    p_after_due_at timestamptz,
    p_after_dead_lettered_at timestamptz,
    p_after_id uuid,
    p_lease_seconds double precision,
    p_now timestamptz
) returns table (
    claimed_at timestamptz, due_at timestamptz, superseded_by uuid,
    dead_letter_id uuid, source_table text, source_id uuid, stream_id uuid, message_type text, destination text,
    perspective_name text, metadata jsonb, failure_reason integer, error_text text, attempts_when_dlq integer,
    dead_lettered_at timestamptz, dead_lettered_by uuid, recovery_status integer, recovery_attempts integer,
    last_recovery_at timestamptz, next_recovery_at timestamptz, recovered_at timestamptz, generation text,
    retried_on_generations text[], operator_disposition integer, operator_notes text, operator_actor text,
    error_fingerprint varchar, error_fingerprint_version smallint, source_created_at timestamptz,
    source_position bigint, incarnation integer, replay_credit text, replay_credit_at timestamptz, deferral text,
    policy_errors integer, policy_error_digest text, status_note text, passed bigint)
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    -- A claim that a crash of the server forgets has done nothing yet: its host finds the batch lost.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(hashtextextended('reprieve claim ' || current_schema(), 0));
    v_now := coalesce(p_now, clock_timestamp());
    return query
    with met as (
        -- Rows without a due time are due at once, even those that seem to have died in the future: a second range.
        select f.row_place, f.dead_letter_id, f.due_at, f.stream_key, f.own, row_number() over () as place,
            count(*) filter (where f.own) over (rows unbounded preceding) as passed
        from (
            (select d.ctid as row_place, d.dead_letter_id, coalesce(d.next_recovery_at, d.dead_lettered_at) as due_at,
                reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as stream_key,
                d.dead_letter_id in (select unnest(b.ids) from wh_recovery_batches b where b.owner = p_owner)
                    or coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                        in (select unnest(b.streams) from wh_recovery_batches b where b.owner = p_owner) as own
            from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id) > (
                    coalesce(p_after_due_at, '-infinity'), coalesce(p_after_dead_lettered_at, '-infinity'),
                    coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
                and coalesce(d.next_recovery_at, d.dead_lettered_at) <= v_now
                and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                    or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b where b.owner <> p_owner)
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(b.streams) from wh_recovery_batches b where b.owner <> p_owner)
            order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id)
            union all
            (select d.ctid, d.dead_letter_id, d.dead_lettered_at,
                reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name),
                d.dead_letter_id in (select unnest(b.ids) from wh_recovery_batches b where b.owner = p_owner)
                    or coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                        in (select unnest(b.streams) from wh_recovery_batches b where b.owner = p_owner)
            from wh_dead_letters d
            where d.recovered_at is null and d.recovery_status not in (2, 3, 4)
                and d.operator_disposition not in (2, 3)
                and d.next_recovery_at is null
                and (d.dead_lettered_at, d.dead_letter_id) > (greatest(v_now, p_after_due_at),
                    case when p_after_due_at > v_now then p_after_id else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end)
                and (d.replay_credit is null or d.replay_credit in ('*', p_generation)
                    or d.replay_credit_at is null or d.replay_credit_at <= v_now - interval '1 hour')
                and d.dead_letter_id not in (select unnest(b.ids) from wh_recovery_batches b where b.owner <> p_owner)
                and coalesce(reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), '')
                    not in (select unnest(b.streams) from wh_recovery_batches b where b.owner <> p_owner)
            order by d.dead_lettered_at, d.dead_letter_id)
        ) f
    ),
    due as materialized (
        select * from met m where not m.own limit p_max
    ),
    batch as (
        insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, started_at, expires_at)
        select p_batch_id, p_owner, p_generation, 'deciding', array_agg(f.dead_letter_id order by f.place),
            coalesce(array_agg(distinct f.stream_key) filter (where f.stream_key is not null), '{}'),
            v_now, v_now + make_interval(secs => p_lease_seconds)
        from due f
        having count(*) > 0
    )
    select v_now, f.due_at, (
            select n.dead_letter_id from wh_dead_letters n
            where n.source_table = d.source_table and n.source_id = d.source_id and n.incarnation > d.incarnation
                and n.incarnation > 1
            order by n.incarnation desc
            limit 1),
        d.dead_letter_id, d.source_table, d.source_id, d.stream_id, d.message_type, d.destination,
        d.perspective_name, d.metadata, d.failure_reason, d.error_text, d.attempts_when_dlq,
        d.dead_lettered_at, d.dead_lettered_by, d.recovery_status, d.recovery_attempts,
        d.last_recovery_at, d.next_recovery_at, d.recovered_at, d.generation,
        d.retried_on_generations, d.operator_disposition, d.operator_notes, d.operator_actor,
        d.error_fingerprint, d.error_fingerprint_version, d.source_created_at,
        d.source_position, d.incarnation, d.replay_credit, d.replay_credit_at, d.deferral,
        d.policy_errors, d.policy_error_digest, d.status_note, f.passed
    from due f
    join wh_dead_letters d on d.ctid = f.row_place
    order by f.place;
    if not found then
        claimed_at := v_now;
        return next;
    end if;
end
$$;
