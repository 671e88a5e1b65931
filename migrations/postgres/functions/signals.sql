-- New dead letters wake the hosts. Commits that notify follow one another, so at most one of those under way at any
-- moment does: whoever cannot have the lock leaves it to the one that has it, and what that one's notice misses is
-- found by the hosts' probe.
create or replace function reprieve_signal() returns trigger
language plpgsql volatile security invoker set search_path from current as $$
begin
    if exists (select from fresh) and pg_try_advisory_xact_lock(hashtextextended('reprieve signal', 0)) then
        perform pg_notify('wh_dead_letter_ready', '');
    end if;
    return null;
end
$$;

do $$
begin
    if not exists (
        select from pg_catalog.pg_trigger t
        where t.tgrelid = to_regclass('wh_dead_letters') and t.tgname = 'wh_dead_letters_signal')
    then
        create trigger wh_dead_letters_signal after insert on wh_dead_letters
            referencing new table as fresh
            for each statement execute function reprieve_signal();
    end if;
end
$$;
