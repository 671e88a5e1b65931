-- Claims due rows. The lock makes claims follow one another; the statement after it has a snapshot of its own, which
-- sees the batch that the one before committed. The settings keep the plan on the range of the due index. A newer death
-- is looked for among those that are not a message's first, which have an index of their own.
--
-- With p_whole_streams each row brings the first rows of its stream along as far as these can go and there is room:
-- they can be recovered in their order at once, whatever the order in which they died. Such a claim takes at most a
-- thousand, since for each row it looks through all that it has.
--
-- The first row tells of the claim, and has no dead letter; those after it are the dead letters.
--
-- is_full: it may be that more are due. resume_* is the place after which the pass goes on, NULL that from which it
-- came: every row up to there that this host may have is in a batch of its own, or has just been changed, and
-- is left to the next pass. passed is how many were left since their streams are in another batch of it.
create or replace function reprieve_claim_rows(
    p_batch_id uuid,
    p_owner uuid,
    p_generation text,
    p_max integer,
    p_after_due_at timestamptz,
    p_after_dead_lettered_at timestamptz,
    p_after_id uuid,
    p_whole_streams boolean,
    p_lease_seconds double precision,
    p_now timestamptz
) returns table (
    claimed_at timestamptz, is_full boolean, passed integer, resume_due_at timestamptz,
    resume_dead_lettered_at timestamptz, resume_id uuid, superseded_by uuid,
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
    v_in_batches record;
    v_row record;
    v_along record;
    v_brings boolean;
    v_is_new boolean;
    v_resume record;
    v_places tid[] := '{}';
    v_brought uuid[] := '{}';
    v_streams text[] := '{}';
    v_most integer := case when p_whole_streams then least(p_max, 1000) else p_max end;
    v_taken integer := 0;
    v_passed integer := 0;
begin
    -- A claim that a crash of the server forgets has done nothing yet: its host finds the batch lost.
    perform set_config('synchronous_commit', 'off', true);
    perform pg_advisory_xact_lock(hashtextextended('reprieve claim ' || current_schema(), 0));
    v_now := coalesce(p_now, clock_timestamp());
    select * into v_in_batches from reprieve_in_batches(p_owner);
    select null::timestamptz as due_at, null::timestamptz as dead_lettered_at, null::uuid as dead_letter_id
    into v_resume;
    for v_row in
        select f.place, f.due_at, f.dead_lettered_at, f.dead_letter_id, f.stream_key, f.in_hand
        from reprieve_free_rows(
            v_in_batches.p_ids, v_in_batches.p_streams_of_others, v_in_batches.p_own_streams, p_generation,
            p_after_due_at, p_after_dead_lettered_at, p_after_id, v_now) f
    loop
        if v_row.in_hand then
            v_passed := v_passed + 1;
            continue;
        end if;
        v_is_new := true;
        if p_whole_streams and v_row.stream_key is not null then
            if v_row.stream_key <> all (v_streams) then
                v_streams := v_streams || v_row.stream_key;
                v_brings := false;
                for v_along in
                    select o.place, o.dead_letter_id, o.is_due, o.waits
                    from reprieve_open_in_stream(v_row.stream_key, p_generation, v_now) o
                loop
                    -- What waits comes with the one that it waits for; the first of all waits for a held one.
                    exit when v_taken >= v_most or not (v_along.is_due or v_along.waits and v_brings);
                    v_brings := true;
                    v_places := v_places || v_along.place;
                    v_brought := v_brought || v_along.dead_letter_id;
                    v_taken := v_taken + 1;
                end loop;
            end if;
            v_is_new := v_row.dead_letter_id <> all (v_brought);
        end if;
        if v_is_new then
            exit when v_taken >= v_most;
            v_places := v_places || v_row.place;
            v_taken := v_taken + 1;
        end if;
        if v_passed = 0 then
            v_resume := v_row;
        end if;
        exit when v_taken >= v_most;
    end loop;
    claimed_at := v_now;
    is_full := v_taken >= v_most;
    passed := v_passed;
    resume_due_at := v_resume.due_at;
    resume_dead_lettered_at := v_resume.dead_lettered_at;
    resume_id := v_resume.dead_letter_id;
    return next;
    return query
    -- Not what somebody has changed since. Nor can another row have come to its place: it is not cleared while this
    -- call's snapshot stands.
    with batch as (
        insert into wh_recovery_batches (batch_id, owner, generation, phase, ids, streams, started_at, expires_at)
        select p_batch_id, p_owner, p_generation, 'deciding', array_agg(d.dead_letter_id),
            coalesce(array_agg(distinct k.key) filter (where k.key is not null), '{}'),
            v_now, v_now + make_interval(secs => p_lease_seconds)
        from wh_dead_letters d,
            lateral (select reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name)) k (key)
        where d.ctid = any (v_places)
        having count(*) > 0
    )
    select null::timestamptz, null::boolean, null::integer, null::timestamptz, null::timestamptz, null::uuid, (
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
    from wh_dead_letters d
    where d.ctid = any (v_places)
    order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id;
end
$$;

-- Looks over a stretch of the due index along which a pass has gone. Nearly all of its rows have been settled since, and
-- whoever meets the entry of such a row first has to look at the row itself to see that it is dead; the index passes over
-- it from then on. A while after they were settled, their pages are still at hand; whoever looks for something that is
-- due would have to read them again, and write them, one after the other for the whole backlog.
create or replace function reprieve_look_over(
    p_after_due_at timestamptz,
    p_after_dead_lettered_at timestamptz,
    p_after_id uuid,
    p_to_due_at timestamptz,
    p_to_dead_lettered_at timestamptz,
    p_to_id uuid
) returns void
language plpgsql stable security invoker
set search_path from current set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    perform from wh_dead_letters d
    where d.recovered_at is null and d.recovery_status not in (2, 3, 4) and d.operator_disposition not in (2, 3)
        and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id)
            > (p_after_due_at, p_after_dead_lettered_at, p_after_id)
        and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id)
            <= (p_to_due_at, p_to_dead_lettered_at, p_to_id);
end
$$;
