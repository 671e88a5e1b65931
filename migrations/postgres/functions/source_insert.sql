-- Statements that insert source rows.

-- The columns of a source table that a re-emission fills from source_row: those that can be inserted, without the ones
-- whose value is given otherwise.
create or replace function reprieve_restored_columns(p_source_table text) returns text[]
language plpgsql stable as $$
begin
    return array(
        select a.attname::text
        from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass(p_source_table) and a.attnum > 0 and not a.attisdropped
            and a.attgenerated = ''
            and a.attname not in ('message_id', 'event_work_id', 'attempts', 'status', 'failure_reason', 'instance_id',
                'lease_expiry', 'error', 'scheduled_for', 'processed_at', 'published_at', 'claimed_at')
            and (p_source_table = 'wh_perspective_events' or a.attname not in ('event_data', 'metadata'))
        order by a.attnum);
end
$$;

-- The expression that gives a body its column's type. A body that is JSON null is a value, not NULL.
create or replace function reprieve_body(p_json text, p_type oid) returns text
language plpgsql stable as $$
begin
    return case format_type(p_type, -1)
        when 'jsonb' then p_json
        when 'json' then format('(%s)::json', p_json)
        else format('((%s) #>> ''{}'')::%s', p_json, format_type(p_type, -1))
    end;
end
$$;

-- Whether a row cannot be inserted without a value for a column, as where an application made the table itself and
-- left out a default.
create or replace function reprieve_needs_value(p_source_table text, p_column text) returns boolean
language plpgsql stable as $$
begin
    return exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass(p_source_table) and a.attname = p_column and a.attnotnull and not a.atthasdef
            and a.attidentity = '');
end
$$;

-- The value that every re-emission gives a column of a source table, whatever source_row says; p_row names the dead
-- letter. NULL: it gives none.
create or replace function reprieve_given_value(p_source_table text, p_column text, p_type oid, p_row text) returns text
language plpgsql stable as $$
begin
    return case
        when p_column = case p_source_table when 'wh_perspective_events' then 'event_work_id' else 'message_id' end
        then p_row || '.source_id'
        when p_column = 'status' and reprieve_needs_value(p_source_table, p_column)
        then case p_source_table when 'wh_perspective_events' then '0' else '1' end
        when p_column = 'failure_reason' and reprieve_needs_value(p_source_table, p_column) then '99'
        when p_column = 'attempts' then '0'
        when p_column in ('instance_id', 'lease_expiry', 'error', 'scheduled_for', 'processed_at', 'published_at',
            'claimed_at') then 'null'
        when p_source_table = 'wh_perspective_events' then null
        when p_column = 'event_data' then reprieve_body(p_row || '.envelope -> ''event_data''', p_type)
        when p_column = 'metadata'
        then reprieve_body(format('coalesce(%1$s.envelope -> ''metadata'', %1$s.metadata)', p_row), p_type)
    end;
end
$$;

-- The insert that brings back those of the rows it is given that are of one source table and whose source_row has all
-- of these keys; with `p_keys` NULL it builds the rows from the dead letter alone. Its texts are quoted.
create or replace function reprieve_insert_statement(p_source_table text, p_keys text[]) returns text
language plpgsql stable as $$
declare
    v_is_perspective boolean := p_source_table = 'wh_perspective_events';
    v_key text := case when p_source_table = 'wh_perspective_events' then 'event_work_id' else 'message_id' end;
    v_columns text;
    v_values text;
begin
    select string_agg(quote_ident(c.name), ', ' order by c.number), string_agg(c.value, ', ' order by c.number)
    into v_columns, v_values
    from (
        select a.attname as name, a.attnum as number,
            coalesce(reprieve_given_value(p_source_table, a.attname::text, a.atttypid, 'd'), case
                when a.attname in ('status', 'failure_reason') then null
                when a.attname = 'stream_id' and not v_is_perspective and (p_keys is null or 'stream_id' = any (p_keys))
                then format('nullif(%s.stream_id, ''00000000-0000-0000-0000-000000000000'')',
                    case when p_keys is null then 'd' else 'r' end)
                when p_keys is not null
                then case when a.attname::text = any (p_keys) then 'r.' || quote_ident(a.attname) end
                when a.attname in ('message_type', 'stream_id', 'perspective_name') then 'd.' || a.attname
                when a.attname = 'destination' and p_source_table = 'wh_outbox' then 'd.destination'
                when a.attname = 'handler_name' and p_source_table = 'wh_inbox' then '''recovered'''
                when a.attname = 'event_id' and v_is_perspective then '(d.envelope ->> ''event_id'')::uuid'
                when a.attname = case when p_source_table = 'wh_inbox' then 'received_at' else 'created_at' end
                then 'coalesce(d.source_created_at, now())'
                when a.attname = 'is_event' and reprieve_needs_value(p_source_table, 'is_event') then 'false'
            end) as value
        from pg_catalog.pg_attribute a
        where a.attrelid = to_regclass(p_source_table) and a.attnum > 0 and not a.attisdropped
            and a.attgenerated = ''
    ) c
    where c.value is not null;
    return format(
        'insert into %I (%s) overriding system value select %s from unnest($1) with ordinality o (id, n)'
            ' join wh_dead_letters d on d.dead_letter_id = o.id%s%s where d.source_table = %L%s'
            ' order by o.n on conflict do nothing returning %I',
        p_source_table, v_columns, v_values,
        case when p_keys is not null
            then format(' cross join lateral jsonb_populate_record(null::%I, d.source_row) r', p_source_table)
            else '' end,
        case
            when not v_is_perspective then ''
            when 'event_id' = any (p_keys) then ' join wh_event_store e on e.event_id = r.event_id'
            else ' join wh_event_store e on e.event_id = (d.envelope ->> ''event_id'')::uuid' end,
        p_source_table,
        case when p_keys is not null
            then format(' and jsonb_typeof(d.source_row) = ''object'' and d.source_row ?& %L::text[]', p_keys)
            else '' end,
        v_key);
end
$$;

-- Runs one insert; the ids of the dead letters whose rows it inserted.
create or replace function reprieve_insert(p_source_table text, p_keys text[], p_ids uuid[]) returns uuid[]
language plpgsql volatile security invoker set search_path from current as $$
declare
    v_keys uuid[];
begin
    execute format('with i (id) as (%s) select array_agg(id) from i', reprieve_insert_statement(p_source_table, p_keys))
    into v_keys using p_ids;
    if cardinality(v_keys) = cardinality(p_ids) then
        return p_ids;
    end if;
    -- Two dead letters of one message can be in one batch: the first of them is the one that was inserted.
    return array(
        select distinct on (d.source_id) d.dead_letter_id
        from unnest(p_ids) with ordinality o (id, n)
        join wh_dead_letters d on d.dead_letter_id = o.id
        where d.source_table = p_source_table and d.source_id = any (v_keys)
        order by d.source_id, o.n);
end
$$;
