-- What another policy put off is told from what the policy in use put off, by the digest that is kept with it.
drop function if exists reprieve_clear_policy_deferrals(integer, timestamptz);

-- Looks at a chunk of the rows that a policy put off, in the order of their ids, and makes those due that another policy
-- than the one with this digest put off; with p_unknown also those of which the policy is not known, as after the death
-- of a host that was deciding. Fewer looked at than asked for: that was the last chunk.
create or replace function reprieve_clear_policy_deferrals(
    p_digest text,
    p_unknown boolean,
    p_after uuid,
    p_limit integer,
    p_now timestamptz)
returns table (looked_at bigint, cleared bigint, last_id uuid)
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_ids uuid[];
begin
    select array_agg(x.dead_letter_id order by x.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.deferral in ('skip', 'policy-error') and (p_after is null or d.dead_letter_id > p_after)
        order by d.dead_letter_id
        limit p_limit
    ) x;
    looked_at := coalesce(cardinality(v_ids), 0);
    last_id := v_ids[looked_at];

    select array_agg(l.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.dead_letter_id = any (v_ids)
            and d.deferral in ('skip', 'policy-error') and d.recovered_at is null and d.recovery_status in (0, 1)
            and (d.policy_error_digest <> p_digest or d.policy_error_digest is null and p_unknown)
        order by d.dead_letter_id
        for update
    ) l;
    update wh_dead_letters d
    set next_recovery_at = coalesce(p_now, clock_timestamp()), deferral = null
    where d.dead_letter_id = any (v_ids);
    get diagnostics cleared = row_count;
    return next;
end
$$;
