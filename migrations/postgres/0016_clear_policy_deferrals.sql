-- What another policy put off is told from what the policy in use put off, by the digest that is kept with it.
drop function if exists reprieve_clear_policy_deferrals(integer, timestamptz);

-- Makes a chunk of the rows due at once that another policy than the one with this digest put off.
create or replace function reprieve_clear_policy_deferrals(p_digest text, p_limit integer, p_now timestamptz)
returns bigint
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[];
    v_cleared bigint;
begin
    select array_agg(l.dead_letter_id) into v_ids
    from (
        select d.dead_letter_id from wh_dead_letters d
        where d.dead_letter_id in (
                select x.dead_letter_id from wh_dead_letters x
                where x.deferral in ('skip', 'policy-error') and x.recovered_at is null
                    and x.recovery_status in (0, 1) and x.policy_error_digest is distinct from p_digest
                order by x.dead_letter_id
                limit p_limit)
            and d.deferral in ('skip', 'policy-error') and d.recovered_at is null and d.recovery_status in (0, 1)
            and d.policy_error_digest is distinct from p_digest
        order by d.dead_letter_id
        for update
    ) l;
    update wh_dead_letters d
    set next_recovery_at = v_now, deferral = null
    where d.dead_letter_id = any (v_ids);
    get diagnostics v_cleared = row_count;
    return v_cleared;
end
$$;
