-- Re-emission: which source rows are inserted together, and what becomes of those that cannot be.

-- Whether an error is the infrastructure's and says nothing about the row at hand.
create or replace function reprieve_is_infrastructure(p_sqlstate text) returns boolean
language sql immutable parallel safe as $$
    select left(p_sqlstate, 2) in ('08', '40', '53', '57', '58') or p_sqlstate = '55P03'
$$;

create or replace function reprieve_superseded_by(p_dead_letter_id uuid) returns uuid
language plpgsql stable security invoker set search_path from current as $$
begin
    return (
        select n.dead_letter_id
        from wh_dead_letters d
        join wh_dead_letters n on n.source_table = d.source_table and n.source_id = d.source_id
            and n.incarnation > d.incarnation
        where d.dead_letter_id = p_dead_letter_id
        order by n.incarnation desc, n.dead_letter_id desc
        limit 1);
end
$$;

-- Why a row was not inserted although its insert raised no error.
create or replace function reprieve_why_not_inserted(p_dead_letter_id uuid) returns text
language plpgsql stable security invoker set search_path from current as $$
begin
    return case when exists (
        select from wh_dead_letters d
        where d.dead_letter_id = p_dead_letter_id and d.source_table = 'wh_perspective_events'
            and not exists (
                select from wh_event_store e
                where e.event_id = coalesce(d.source_row ->> 'event_id', d.envelope ->> 'event_id')::uuid))
        then 'gone' else 'source_present' end;
end
$$;

-- What the host says of a row that was not re-emitted; NULL of one that was.
create or replace function reprieve_outcome_note(p_outcome text, p_source_table text, p_problem text) returns text
language sql immutable parallel safe as $$
    select case p_outcome
        when 'source_present' then 'not re-emitted: ' || p_source_table || ' has this row already'
        when 'gone' then 'not re-emitted: its event is no longer in wh_event_store'
        when 'failed' then 'not re-emitted: ' || p_problem
        when 'superseded' then 'superseded by ' || p_problem
        when 'blocked' then 'waits for ' || p_problem || ', which stands before it in its stream'
    end
$$;

-- Inserts the source rows of dead letters, with a statement for each shape of row; the ids of those that were inserted.
create or replace function reprieve_reemit_by_shape(p_ids uuid[]) returns uuid[]
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_group record;
    v_inserted uuid[] := '{}';
begin
    for v_group in
        with tables as materialized (
            select t.name, reprieve_restored_columns(t.name) as columns
            from (values ('wh_outbox'), ('wh_inbox'), ('wh_perspective_events')) t (name)
        ),
        shaped as (
            select o.n, d.dead_letter_id, d.source_table,
                case
                    when d.source_row is null or jsonb_typeof(d.source_row) <> 'object' then null
                    when d.source_row ?& t.columns then t.columns
                    else array(select k from jsonb_object_keys(d.source_row) k order by k)
                end as keys
            from unnest(p_ids) with ordinality o (id, n)
            join wh_dead_letters d on d.dead_letter_id = o.id
            join tables t on t.name = d.source_table
        )
        select s.source_table, s.keys, array_agg(s.dead_letter_id order by s.n) as ids
        from shaped s
        group by s.source_table, s.keys
        order by min(s.n)
    loop
        v_inserted := v_inserted || reprieve_insert(v_group.source_table, v_group.keys, v_group.ids);
    end loop;
    return v_inserted;
end
$$;

-- Inserts the source rows of dead letters; the ids of those that were inserted. A row that is there already, or whose
-- perspective event is gone, is left out; any other error ends the whole call. Most batches are of one table and one
-- shape, and need one statement.
create or replace function reprieve_reemit(p_ids uuid[]) returns uuid[]
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_table text := (select d.source_table from wh_dead_letters d where d.dead_letter_id = p_ids[1]);
    v_inserted uuid[];
begin
    v_inserted := reprieve_insert(v_table, reprieve_restored_columns(v_table), p_ids);
    if cardinality(v_inserted) < cardinality(p_ids) then
        v_inserted := v_inserted || reprieve_reemit_by_shape(
            array(
                select a.id from unnest(p_ids) with ordinality a (id, n)
                where a.id not in (select unnest(v_inserted))
                order by a.n));
    end if;
    return v_inserted;
end
$$;

-- Inserts source rows as reprieve_reemit does, in exactly the order given: rows that follow one another and are of one
-- shape share a statement.
create or replace function reprieve_reemit_in_turn(p_ids uuid[]) returns uuid[]
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_group record;
    v_inserted uuid[] := '{}';
begin
    for v_group in
        with tables as materialized (
            select t.name, reprieve_restored_columns(t.name) as columns
            from (values ('wh_outbox'), ('wh_inbox'), ('wh_perspective_events')) t (name)
        ),
        shaped as (
            select o.n, d.dead_letter_id, d.source_table,
                case
                    when d.source_row is null or jsonb_typeof(d.source_row) <> 'object' then null
                    when d.source_row ?& t.columns then t.columns
                    else array(select k from jsonb_object_keys(d.source_row) k order by k)
                end as keys
            from unnest(p_ids) with ordinality o (id, n)
            join wh_dead_letters d on d.dead_letter_id = o.id
            join tables t on t.name = d.source_table
        ),
        runs as (
            select s.*, s.n - row_number() over (partition by s.source_table, s.keys order by s.n) as run
            from shaped s
        )
        select r.source_table, r.keys, array_agg(r.dead_letter_id order by r.n) as ids
        from runs r
        group by r.source_table, r.keys, r.run
        order by min(r.n)
    loop
        v_inserted := v_inserted || reprieve_insert(v_group.source_table, v_group.keys, v_group.ids);
    end loop;
    return v_inserted;
end
$$;

-- Re-emits dead letters so that a bad one does not keep the others back: what fails is halved, left part first, until
-- the bad row stands alone. Rows that keep the order of a stream name it in p_keys; one of them that is not inserted
-- and stays in the way (with p_fails_in_the_way after an error, with p_held when it is held) keeps back those behind
-- it. With a p_refusal nothing is tried: all of them fail for it. An error of the infrastructure ends the whole call.
create or replace function reprieve_reemit_apart(
    p_ids uuid[],
    p_keys text[] default null,
    p_fails_in_the_way boolean[] default null,
    p_held boolean default false,
    p_refusal text default null,
    out p_inserted uuid[], out p_failed uuid[], out p_problems text[], out p_kept_back uuid[])
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_middle integer := cardinality(p_ids) / 2;
    v_in_order boolean := exists (select from unnest(p_keys) k (key) where k.key is not null);
    v_left record;
    v_right record;
    v_problem text;
    v_stopped text[];
    v_go integer[];
begin
    p_inserted := '{}';
    p_failed := '{}';
    p_problems := '{}';
    p_kept_back := '{}';
    if p_ids = '{}' then
        return;
    end if;
    if p_refusal is not null then
        p_failed := p_ids;
        p_problems := array_fill(p_refusal, array[cardinality(p_ids)]);
        return;
    end if;
    begin
        p_inserted := case when v_in_order then reprieve_reemit_in_turn(p_ids) else reprieve_reemit(p_ids) end;
        if v_in_order and p_held and cardinality(p_inserted) < cardinality(p_ids) and exists (
            select from unnest(p_ids, p_keys) with ordinality a (id, key, n)
            join unnest(p_ids, p_keys) with ordinality b (id, key, n) on b.key = a.key and b.n > a.n
            where a.id <> all (p_inserted) and b.id = any (p_inserted))
        then
            raise sqlstate 'RP003';
        end if;
        return;
    exception when others then
        if reprieve_is_infrastructure(sqlstate) then
            raise;
        end if;
        v_problem := sqlerrm;
    end;
    p_inserted := '{}';
    if cardinality(p_ids) = 1 then
        p_failed := p_ids;
        p_problems := array[v_problem];
        return;
    end if;
    select * into v_left
    from reprieve_reemit_apart(p_ids[:v_middle], p_keys[:v_middle], p_fails_in_the_way[:v_middle], p_held);
    v_stopped := array(
        select a.key from unnest(p_ids[:v_middle], p_keys[:v_middle], p_fails_in_the_way[:v_middle]) a (id, key, fails)
        where a.key is not null and a.id <> all (v_left.p_inserted)
            and case
                when a.id = any (v_left.p_kept_back) then true
                when a.id = any (v_left.p_failed) then a.fails
                else p_held end);
    v_go := array(
        select a.n from unnest(p_keys[v_middle + 1:]) with ordinality a (key, n)
        where a.key is null or a.key <> all (v_stopped)
        order by a.n);
    if p_keys is null then
        v_go := array(select generate_series(1, cardinality(p_ids) - v_middle));
    end if;
    select * into v_right
    from reprieve_reemit_apart(
        array(select p_ids[v_middle + g.n] from unnest(v_go) with ordinality g (n, place) order by g.place),
        array(select p_keys[v_middle + g.n] from unnest(v_go) with ordinality g (n, place) order by g.place),
        array(select p_fails_in_the_way[v_middle + g.n] from unnest(v_go) with ordinality g (n, place) order by g.place),
        p_held);
    p_inserted := v_left.p_inserted || v_right.p_inserted;
    p_failed := v_left.p_failed || v_right.p_failed;
    p_problems := v_left.p_problems || v_right.p_problems;
    p_kept_back := v_left.p_kept_back || v_right.p_kept_back || array(
        select a.id from unnest(p_ids[v_middle + 1:]) with ordinality a (id, n) where a.n <> all (v_go) order by a.n);
end
$$;
