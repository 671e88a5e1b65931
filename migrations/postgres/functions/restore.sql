-- Re-emission of a batch without trouble, which nearly all are: one statement takes the rows and inserts their source
-- rows. Whatever it cannot do at once (a row that is there already, a bad one, one that somebody else settled) ends it,
-- and the batch is settled apart.

-- What the statement for a source table is made of: its columns, as the catalogue has them now. It is asked for every
-- batch: PL/pgSQL keeps the plan.
create or replace function reprieve_source_shape(p_source_table text) returns text
language plpgsql stable as $$
begin
    return (
        select string_agg(concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attgenerated, a.attnotnull, a.atthasdef), ',' order by a.attnum)
        from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass(p_source_table) and a.attnum > 0 and not a.attisdropped);
end
$$;

-- The value of a column as m.source_row has it; NULL: of a type that is left to jsonb_to_record, which reads them all,
-- but takes longer. What is read here is read as jsonb_to_record does: by the type's own input function, and with the
-- length that the type has left to the insert, which refuses what a cast would cut off.
create or replace function reprieve_restored_value(p_column text, p_type oid) returns text
language plpgsql stable as $$
begin
    return case
        when p_type = 'jsonb'::regtype then format('nullif(m.source_row -> %L, ''null'')', p_column)
        when p_type <> 'json'::regtype
            and exists (
                select from pg_catalog.pg_type t where t.oid = p_type and t.typtype in ('b', 'e') and t.typelem = 0)
            and not exists (
                select from pg_catalog.pg_cast c
                where c.castsource = 'text'::regtype and c.casttarget = p_type and c.castmethod = 'f')
        then format('(m.source_row ->> %L)::%s', p_column, format_type(p_type, -1))
    end;
end
$$;

-- The statement that recovers those of the dead letters $1 that are of one source table and whose source_row is whole;
-- $2 are the credits that pay for them, $3 is the time. It locks in the order of ids, as everybody does, and inserts in
-- the order given. Its texts are quoted.
create or replace function reprieve_restore_statement(p_source_table text) returns text
language plpgsql stable security invoker set search_path from current as $$
declare
    v_is_perspective boolean := p_source_table = 'wh_perspective_events';
    v_restored text[] := reprieve_restored_columns(p_source_table);
    v_columns text;
    v_values text;
    v_types text;
begin
    select string_agg(quote_ident(c.name), ', ' order by c.number), string_agg(c.value, ', ' order by c.number),
        string_agg(format('%I %s', c.name, c.type), ', ' order by c.number) filter (where c.is_of_record)
    into v_columns, v_values, v_types
    from (
        select v.name, v.number, v.type, v.is_restored and v.restored is null as is_of_record,
            case
                when not v.is_restored then reprieve_given_value(p_source_table, v.name, v.type_id, 'm')
                when v.name = 'stream_id' and not v_is_perspective
                then format('nullif(%s, ''00000000-0000-0000-0000-000000000000'')', v.value)
                else v.value
            end as value
        from (
            select a.attname::text as name, a.attnum as number, a.atttypid as type_id,
                format_type(a.atttypid, a.atttypmod) as type, a.attname::text = any (v_restored) as is_restored,
                r.value as restored, coalesce(r.value, 'r.' || quote_ident(a.attname)) as value
            from pg_catalog.pg_attribute a,
                lateral (select reprieve_restored_value(a.attname::text, a.atttypid)) r (value)
            where a.attrelid = to_regclass(p_source_table) and a.attnum > 0 and not a.attisdropped
                and a.attgenerated = ''
        ) v
    ) c
    where c.value is not null;
    return format($statement$
        with moved as (
            update wh_dead_letters d
            set recovery_status = 3, recovered_at = $3, last_recovery_at = $3, next_recovery_at = null,
                deferral = null, recovery_attempts = d.recovery_attempts + case when a.credit is null then 1 else 0 end,
                replay_credit = null, replay_credit_at = null,
                retried_on_generations = case when d.generation = any (d.retried_on_generations)
                    then d.retried_on_generations else array_append(d.retried_on_generations, d.generation) end,
                operator_disposition = 0, policy_errors = 0, policy_error_digest = null, status_note = null
            from (
                select g.id, g.credit, g.n from unnest($1, $2) with ordinality g (id, credit, n) order by g.id
            ) a
            where d.dead_letter_id = a.id and d.source_table = %L and d.recovered_at is null
                and d.recovery_status in (0, 1) and d.operator_disposition not in (2, 3)
                and jsonb_typeof(d.source_row) = 'object' and d.source_row ?& %L::text[]
            returning a.n, d.source_id, d.incarnation, d.envelope, d.metadata, d.source_row
        ),
        inserted as (
            insert into %I (%s) overriding system value
            select %s
            from (select * from moved order by n offset 0) m%s%s
            order by m.n
            returning 1
        )
        select (select count(*) from inserted), array_agg(m.source_id), array_agg(m.incarnation) from moved m
        $statement$,
        p_source_table, v_restored, p_source_table, v_columns, v_values,
        coalesce(' cross join lateral jsonb_to_record(m.source_row) as r (' || v_types || ')', ''),
        case when v_is_perspective
            then ' join wh_event_store e on e.event_id = (m.source_row ->> ''event_id'')::uuid' else '' end);
end
$$;

-- Makes the functions reprieve_restore_TABLE, whose plans a session keeps, where they are missing or would be made
-- otherwise now, as when the table has other columns. Such a function still works, with a plan for each call, and so a
-- role that may not replace it goes on without.
create or replace function reprieve_create_restore() returns void
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_table text;
    v_shape text;
    v_body text;
begin
    foreach v_table in array array['wh_outbox', 'wh_inbox', 'wh_perspective_events'] loop
        v_shape := quote_literal(reprieve_source_shape(v_table));
        continue when v_shape is null;
        v_body := format($body$
            #variable_conflict use_column
            begin
                if reprieve_source_shape(%L) = %s then
                    return query %s;
                else
                    return query execute reprieve_restore_statement(%L) using p_ids, p_credits, p_now;
                end if;
            end
            $body$, v_table, v_shape, reprieve_restore_statement(v_table), v_table);
        continue when exists (
            select from pg_catalog.pg_proc p
            where p.pronamespace = quote_ident(current_schema())::regnamespace
                and p.proname = 'reprieve_restore_' || v_table and p.prosrc = v_body);
        begin
            execute format($function$
                create or replace function %I(p_ids uuid[], p_credits text[], p_now timestamptz)
                returns table (inserted bigint, source_ids uuid[], incarnations integer[])
                language plpgsql volatile security invoker
                set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
                set jit = off set plan_cache_mode = force_generic_plan
                as %L
                $function$, 'reprieve_restore_' || v_table, v_body);
        exception when insufficient_privilege then
            raise warning 'reprieve_restore_% stays as it was made for other columns', v_table;
        end;
    end loop;
end
$$;

-- Recovers those of the rows that are of one source table; how many there were. An error when one was not inserted, or
-- has died again since the claim.
create or replace function reprieve_restore(p_source_table text, p_ids uuid[], p_credits text[], p_now timestamptz)
returns integer
language plpgsql volatile security invoker
set search_path from current set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_restored record;
begin
    case p_source_table
        when 'wh_outbox' then
            select * into v_restored from reprieve_restore_wh_outbox(p_ids, p_credits, p_now);
        when 'wh_inbox' then
            select * into v_restored from reprieve_restore_wh_inbox(p_ids, p_credits, p_now);
        when 'wh_perspective_events' then
            select * into v_restored from reprieve_restore_wh_perspective_events(p_ids, p_credits, p_now);
    end case;
    -- Not before the inserts: one of them may have waited for the move of a newer death to be committed.
    if v_restored.inserted is distinct from coalesce(cardinality(v_restored.source_ids), 0)
        or exists (
            select from unnest(v_restored.source_ids, v_restored.incarnations) as o (source_id, incarnation)
            where exists (
                select from wh_dead_letters n
                where n.source_table = p_source_table and n.source_id = o.source_id
                    and n.incarnation > o.incarnation and n.incarnation > 1))
    then
        raise sqlstate 'RP002';
    end if;
    return v_restored.inserted;
end
$$;
