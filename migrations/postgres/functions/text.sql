-- Texts as they are stored. Followed step by step by the program's own code, which SQLite uses: a change here is a
-- change there.

create or replace function reprieve_clean_text(p_text text) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog
as $function$
declare
    v_max constant int := 65536;
    v_mark constant text := E'\n[cut at 64 KiB]';
    v_bytes bytea;
    v_end int;
begin
    if octet_length(p_text) <= v_max then
        return p_text;
    end if;
    v_bytes := convert_to(left(p_text, v_max), 'UTF8');
    v_end := v_max - octet_length(v_mark);
    -- A byte 10xxxxxx goes on with a character that began before it.
    while get_byte(v_bytes, v_end) & 192 = 128 loop
        v_end := v_end - 1;
    end loop;
    return convert_from(substring(v_bytes from 1 for v_end), 'UTF8') || v_mark;
end
$function$;

-- JSON that jsonb refuses (NUL characters, unpaired surrogates) is kept with a visible mark instead; what cannot be
-- mended is kept as one JSON string.
create or replace function reprieve_json(p_json text) returns jsonb
language plpgsql immutable security invoker set search_path from current as $$
begin
    return p_json::jsonb;
exception when others then
    begin
        return regexp_replace(p_json, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\u2400', 'g')::jsonb;
    exception when others then
        return to_jsonb(regexp_replace(
            regexp_replace(p_json, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\u2400', 'g'),
            '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\1\\ufffd', 'g'));
    end;
end
$$;
