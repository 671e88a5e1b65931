-- What is kept no longer, in chunks.

-- Looks at a chunk of the recorded decisions, in the order of their ids, and deletes those that are older than p_keep,
-- as is everything else that was decided about their dead letter, when this is recovered, given up or gone. No row:
-- another host is in the midst of it, and goes on to the end. Fewer looked at than asked for: that was the last chunk.
create or replace function reprieve_forget_decisions(p_keep interval, p_after uuid, p_limit integer, p_now timestamptz)
returns table (looked_at bigint, forgotten bigint, last_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_before timestamptz := coalesce(p_now, clock_timestamp()) - p_keep;
    v_old uuid[];
begin
    if not pg_try_advisory_xact_lock(hashtextextended('reprieve forget ' || current_schema(), 0)) then
        return;
    end if;
    select count(*), (array_agg(c.decision_id order by c.decision_id desc))[1],
        array_agg(c.decision_id) filter (where c.decided_at < v_before)
    into looked_at, last_id, v_old
    from (
        select x.decision_id, x.decided_at from wh_dead_letter_decisions x
        where p_after is null or x.decision_id > p_after
        order by x.decision_id
        limit p_limit
    ) c;
    delete from wh_dead_letter_decisions x
    where x.decision_id = any (v_old)
        and not exists (
            select from wh_dead_letters d
            where d.dead_letter_id = x.dead_letter_id and d.recovery_status not in (3, 4))
        and not exists (
            select from wh_dead_letter_decisions y
            where y.dead_letter_id = x.dead_letter_id and y.decided_at >= v_before);
    get diagnostics forgotten = row_count;
    return next;
end
$$;

-- Looks at a chunk of the dead letters, in the order of their ids, and deletes those that have been recovered for
-- longer than p_keep_recovered, or given up with nothing known of them for longer than p_keep_failed; null keeps them.
-- Of a message with an open dead letter all of them stay, and a later one stays as long as an earlier one that was
-- given up: an operator who retries that one is told of it by the later one alone. No row: another host is in the midst
-- of it, and goes on to the end. Fewer looked at than asked for: that was the last chunk.
create or replace function reprieve_forget_settled(
    p_keep_recovered interval, p_keep_failed interval, p_after uuid, p_limit integer, p_now timestamptz)
returns table (looked_at bigint, forgotten bigint, last_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_recovered_before timestamptz := v_now - p_keep_recovered;
    v_failed_before timestamptz := v_now - p_keep_failed;
    v_old uuid[];
begin
    if not pg_try_advisory_xact_lock(hashtextextended('reprieve forget settled ' || current_schema(), 0)) then
        return;
    end if;
    select count(*), (array_agg(c.dead_letter_id order by c.dead_letter_id desc))[1],
        array_agg(c.dead_letter_id) filter (
            where c.recovered_at < v_recovered_before
                or c.recovery_status = 4 and greatest(c.dead_lettered_at, c.last_recovery_at) < v_failed_before)
    into looked_at, last_id, v_old
    from (
        select d.dead_letter_id, d.recovery_status, d.recovered_at, d.dead_lettered_at, d.last_recovery_at
        from wh_dead_letters d
        where p_after is null or d.dead_letter_id > p_after
        order by d.dead_letter_id
        limit p_limit
    ) c;
    delete from wh_dead_letters d
    where d.dead_letter_id in (
        select o.dead_letter_id from wh_dead_letters o
        where o.dead_letter_id = any (v_old) and o.recovery_status in (3, 4)
            and not exists (
                select from wh_dead_letters n
                where n.source_table = o.source_table and n.source_id = o.source_id
                    and (n.recovery_status not in (3, 4) or n.recovery_status = 4 and n.incarnation < o.incarnation))
            and (o.recovery_status = 3 or not exists (
                select from wh_dead_letter_decisions x
                where x.dead_letter_id = o.dead_letter_id and x.decided_at >= v_failed_before))
        order by o.dead_letter_id
        for update skip locked);
    get diagnostics forgotten = row_count;
    return next;
end
$$;
