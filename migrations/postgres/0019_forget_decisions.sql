-- Looks at a chunk of the recorded decisions, in the order of their ids, and deletes those that are older than p_keep, as
-- is everything else that was decided about their dead letter, when this is recovered, given up or gone. No row: another
-- host is in the midst of it, and goes on to the end. Fewer looked at than asked for: that was the last chunk.
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
