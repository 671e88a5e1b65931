-- Which rows can be claimed.

-- Whether a row is for hosts of a generation: for an hour, the credit of another one reserves it for that one's. Were
-- it immutable, it would be called for each row, and not become a part of the queries.
create or replace function reprieve_is_for(p_credit text, p_credit_at timestamptz, p_generation text, p_now timestamptz)
returns boolean
language sql stable parallel safe as $$
    select p_credit is null or p_credit in ('*', p_generation) or p_credit_at is null
        or p_credit_at <= p_now - interval '1 hour'
$$;

-- What is in batches: rows, streams of a host's own batches, and streams of the others. It reads them by their index,
-- which passes over dead ones: until the table is vacuumed, most are dead. For the same reason queries look them up in
-- these arrays, and not in the table: they would make room for as many rows as its size promises.
create or replace function reprieve_in_batches(
    p_owner uuid, out p_ids uuid[], out p_own_streams text[], out p_streams_of_others text[])
language plpgsql stable set search_path from current set enable_seqscan = off as $$
declare
    v_batch record;
begin
    p_ids := '{}';
    p_own_streams := '{}';
    p_streams_of_others := '{}';
    for v_batch in
        select b.owner, b.ids, b.streams from wh_recovery_batches b
        where b.batch_id >= '00000000-0000-0000-0000-000000000000'
    loop
        p_ids := p_ids || v_batch.ids;
        if v_batch.owner = p_owner then
            p_own_streams := p_own_streams || v_batch.streams;
        else
            p_streams_of_others := p_streams_of_others || v_batch.streams;
        end if;
    end loop;
end
$$;

-- The due rows that a host may claim, in the order in which they fall due, after a place. What is in a batch and what
-- belongs to streams that other hosts have is left out; of rows whose streams the host itself has it is told.
create or replace function reprieve_free_rows(
    p_ids_in_batches uuid[],
    p_streams_of_others text[],
    p_own_streams text[],
    p_generation text,
    p_after_due_at timestamptz,
    p_after_dead_lettered_at timestamptz,
    p_after_id uuid,
    p_now timestamptz
) returns table (
    place tid, due_at timestamptz, dead_lettered_at timestamptz, dead_letter_id uuid, stream_key text, in_hand boolean)
language sql stable as $$
    select f.place, f.due_at, f.dead_lettered_at, f.dead_letter_id, f.stream_key,
        coalesce(f.stream_key, '') in (select unnest(p_own_streams))
    from (
        (select d.ctid as place, coalesce(d.next_recovery_at, d.dead_lettered_at) as due_at, d.dead_lettered_at,
            d.dead_letter_id, reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) as stream_key,
            d.replay_credit, d.replay_credit_at
        from wh_dead_letters d
        where d.recovered_at is null and d.recovery_status not in (2, 3, 4) and d.operator_disposition not in (2, 3)
            and (coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id) > (
                coalesce(p_after_due_at, '-infinity'), coalesce(p_after_dead_lettered_at, '-infinity'),
                coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
            and coalesce(d.next_recovery_at, d.dead_lettered_at) <= p_now
        order by coalesce(d.next_recovery_at, d.dead_lettered_at), d.dead_lettered_at, d.dead_letter_id)
        union all
        -- Rows without a due time are due at once, even those that seem to have died in the future.
        (select d.ctid, d.dead_lettered_at, d.dead_lettered_at, d.dead_letter_id,
            reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name), d.replay_credit, d.replay_credit_at
        from wh_dead_letters d
        where d.recovered_at is null and d.recovery_status not in (2, 3, 4) and d.operator_disposition not in (2, 3)
            and d.next_recovery_at is null
            and (d.dead_lettered_at, d.dead_letter_id) > (greatest(p_now, p_after_due_at),
                case when p_after_due_at > p_now then p_after_id else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end)
        order by d.dead_lettered_at, d.dead_letter_id)
    ) f
    where reprieve_is_for(f.replay_credit, f.replay_credit_at, p_generation, p_now)
        and f.dead_letter_id not in (select unnest(p_ids_in_batches))
        and coalesce(f.stream_key, '') not in (select unnest(p_streams_of_others))
$$;

-- The open rows of a stream in its order: whether each is due, and whether it waits for an earlier one; neither of
-- those that are reserved for another generation. Under a held snapshot, the stream's index also names the rows of it
-- that were recovered since, and these are passed over each time.
create or replace function reprieve_open_in_stream(p_stream_key text, p_generation text, p_now timestamptz)
returns table (place tid, dead_letter_id uuid, is_due boolean, waits boolean)
language sql stable as $$
    select d.ctid, d.dead_letter_id,
        (d.next_recovery_at is null or d.next_recovery_at <= p_now)
            and reprieve_is_for(d.replay_credit, d.replay_credit_at, p_generation, p_now),
        d.deferral is not distinct from 'stream'
            and reprieve_is_for(d.replay_credit, d.replay_credit_at, p_generation, p_now)
    from wh_dead_letters d
    where d.recovered_at is null and d.recovery_status not in (2, 3, 4) and d.operator_disposition not in (2, 3)
        and d.stream_id is not null
        and reprieve_stream_key(d.source_table, d.stream_id, d.perspective_name) = p_stream_key
    order by coalesce(d.source_position, 9223372036854775807), coalesce(d.source_created_at, d.dead_lettered_at),
        d.source_id, d.dead_letter_id
$$;
