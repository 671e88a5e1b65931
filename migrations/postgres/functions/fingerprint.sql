-- What two occurrences of one fault have in common. Followed step by step by the program's own code, which SQLite uses:
-- a change here is a change there, and a new version of the fingerprint.
create or replace function reprieve_error_fingerprint(p_text text) returns varchar
language plpgsql immutable strict parallel safe
set search_path = pg_catalog
as $function$
declare
    c_blank constant text := E' \t\r';
    c_numbered constant text[] := array[
        ['0x[0-9A-Fa-f]+', ''],
        ['__[0-9]+(_[0-9]+)*', '__'],
        ['[$][$][0-9a-f]+', '$$'],
        ['[$][0-9]+', '$'],
        ['@[0-9]+(-[0-9]+)?', '@']];
    c_plain constant text[] := array[
        ['[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}', '#'],
        ['"[^"]*"', '#'],
        ['`[^`]*`', '#'],
        ['(^|[^A-Za-z0-9])''[^'']*''', '\1#'],
        ['[A-Za-z0-9_]*[0-9][A-Za-z0-9_]*', '#'],
        ['#([-+.,:/]#)+', '#'],
        ['(^|[ (=:])-#', '\1#'],
        ['[ \t]+', ' ']];
    c_prefix constant text := '^(Unhandled exception[.:] |Uncaught (exception: )?|Exception in thread "[^"]*" |Caused by: '
        || '|\(Inner Exception #[0-9]+\) )*';
    c_named constant text := '^([A-Za-z_][A-Za-z0-9_$.+`]*)(( ?\([^)]*\)| ?\[[^\]]*\])?:|$)';
    c_type_like constant text := '(\.[A-Z][A-Za-z0-9_$+`]*|Error|Exception)$';
    c_installed constant text := '[/\\](node_modules|site-packages|dist-packages|pkg[/\\]mod)[/\\]';
    v_line text;
    v_text text;
    v_before text := '';
    v_found text[];
    v_name text;
    v_place text;
    v_foreign boolean;
    v_is_frame boolean;
    v_is_python boolean;
    v_keep boolean;
    v_first text;
    v_head text[] := '{}';
    -- Lines that name causes or end a traceback, and for each whether any name is a type.
    v_named text[] := '{}';
    v_any_name boolean[] := '{}';
    v_frames text[] := '{}';
    v_traceback text[] := '{}';
    v_has_traceback boolean := false;
    v_any_frame boolean := false;
    v_in_traceback boolean := false;
    v_other_goroutine boolean := false;
    v_types text[] := '{}';
    v_canonical text;
    v_part text;
    v_step int;
    v_i int;
begin
    foreach v_line in array string_to_array(p_text, E'\n') loop
        v_text := btrim(v_line, c_blank);
        if v_text <> '' then
            v_first := coalesce(v_first, v_text);
            v_is_frame := false;
            v_is_python := false;
            v_keep := true;
            v_foreign := false;
            v_name := null;
            if v_text = 'Traceback (most recent call last):' then
                v_traceback := '{}';
                v_has_traceback := false;
                v_in_traceback := false;
            else
                if starts_with(v_text, 'File "') then
                    v_found := regexp_match(v_text, '^File "([^"]*)", line [0-9]+(, in (.*))?$');
                    if v_found is not null then
                        v_is_frame := true;
                        v_is_python := true;
                        v_foreign := v_found[1] ~ '^<|[/\\]lib[/\\]python[0-9.]+[/\\]|[/\\]Python[0-9]+[/\\]Lib[/\\]'
                            or v_found[1] ~ c_installed;
                        v_name := regexp_replace(v_found[1], '^.*[/\\]', '') || ':' || coalesce(v_found[3], '');
                    end if;
                elsif starts_with(v_text, 'at ') then
                    v_place := null;
                    v_found := regexp_match(v_text,
                        '^at (async )?([^(]+) \((.+:[0-9]+:[0-9]+|<anonymous>|native|index [0-9]+)\)$');
                    if v_found is not null then
                        v_name := v_found[2];
                        v_place := v_found[3];
                    else
                        v_found := regexp_match(v_text, '^at (async )?([^(]+:[0-9]+:[0-9]+)$');
                        if v_found is not null then
                            v_name := '';
                            v_place := v_found[2];
                        else
                            v_found := regexp_match(v_text, '^at ([^ (]+)\(');
                            v_name := regexp_replace(v_found[1], '^[^ ]*/', '');
                        end if;
                    end if;
                    v_is_frame := v_name is not null;
                    if v_place is not null then
                        v_foreign := v_place ~ '^(node:|internal/|<anonymous>$|native$|index [0-9]+$)'
                            or v_place ~ c_installed;
                        v_name := v_name || '@'
                            || regexp_replace(regexp_replace(v_place, '^.*[/\\]', ''), ':[0-9]+:[0-9]+$', '');
                    end if;
                end if;
                if not v_is_frame and starts_with(v_line, E'\t') then
                    v_found := regexp_match(rtrim(v_line, c_blank),
                        '^\t(.*\.go:[0-9]+|.*\.s:[0-9]+)( \+0x[0-9a-f]+)?$');
                    if v_found is not null then
                        v_is_frame := true;
                        v_keep := not v_other_goroutine;
                        v_name := regexp_replace(v_before, '\([^(]*$', '');
                        v_foreign := starts_with(v_before, 'created by ') or v_found[1] ~ c_installed
                            or v_name ~ ('^(panic$|(runtime|net|database|reflect|sync|syscall|testing|os|io|bufio|bytes'
                                || '|context|encoding|errors|fmt|internal|strconv|strings|time|crypto|sort|slices|maps'
                                || '|log|html|text|regexp|math|hash|compress|iter)[./])');
                    end if;
                end if;
                if v_is_frame then
                    v_any_frame := true;
                    v_foreign := v_foreign
                        or v_name ~ '^(System|Microsoft|Whizbang|java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala)\.';
                    if not v_foreign then
                        for v_step in 1 .. array_length(c_numbered, 1) loop
                            v_name := regexp_replace(v_name, c_numbered[v_step][1], c_numbered[v_step][2], 'g');
                        end loop;
                    end if;
                    if v_is_python then
                        v_in_traceback := true;
                        v_has_traceback := true;
                        if not v_foreign then
                            v_traceback := array_prepend(v_name, v_traceback);
                        end if;
                    elsif v_keep and not v_foreign then
                        v_frames := array_append(v_frames, v_name);
                    end if;
                elsif starts_with(v_text, 'Caused by: ') or starts_with(v_text, '---> ') then
                    v_named := array_append(v_named, v_text);
                    v_any_name := array_append(v_any_name, false);
                elsif v_in_traceback and strpos(c_blank, left(v_line, 1)) = 0 then
                    v_named := array_append(v_named, v_text);
                    v_any_name := array_append(v_any_name, true);
                    v_in_traceback := false;
                elsif not v_any_frame then
                    v_head := array_append(v_head, v_text);
                elsif starts_with(v_text, 'goroutine ') then
                    v_other_goroutine := true;
                end if;
            end if;
        end if;
        v_before := v_text;
    end loop;

    if v_has_traceback then
        v_frames := v_traceback;
    end if;
    -- Without a frame to end it, the head is the whole text, and only its first line is about the error.
    if not v_any_frame then
        v_head := v_head[1:1];
    end if;

    foreach v_text in array v_head loop
        v_part := substring(v_text from '(?:runtime error|fatal error): .*$');
        if v_part is not null then
            v_part := regexp_replace(v_part, ' \[recovered.*$', '');
            for v_step in 1 .. array_length(c_plain, 1) loop
                v_part := regexp_replace(v_part, c_plain[v_step][1], c_plain[v_step][2], 'g');
            end loop;
            v_types := array[v_part];
        elsif starts_with(v_text, 'panic: ') then
            v_types := array[coalesce(substring(v_text from '^panic: \(([^)]*)\)'), 'panic')];
        else
            foreach v_part in array string_to_array(v_text, '---> ') loop
                v_part := regexp_replace(btrim(v_part, c_blank), c_prefix, '');
                v_name := (regexp_match(v_part, c_named))[1];
                if v_name ~ c_type_like and v_name <> all (v_types) then
                    v_types := array_append(v_types, v_name);
                end if;
            end loop;
        end if;
        exit when cardinality(v_types) > 0;
    end loop;
    for v_i in 1 .. cardinality(v_named) loop
        foreach v_part in array string_to_array(v_named[v_i], '---> ') loop
            v_part := regexp_replace(btrim(v_part, c_blank), c_prefix, '');
            v_name := (regexp_match(v_part, c_named))[1];
            if v_name is not null and (v_any_name[v_i] or v_name ~ c_type_like) and v_name <> all (v_types) then
                v_types := array_append(v_types, v_name);
            end if;
        end loop;
    end loop;

    if cardinality(v_types) = 0 and cardinality(v_frames) = 0 then
        v_canonical := coalesce(v_first, '');
        for v_step in 1 .. array_length(c_plain, 1) loop
            v_canonical := regexp_replace(v_canonical, c_plain[v_step][1], c_plain[v_step][2], 'g');
        end loop;
        v_canonical := E'text\n' || v_canonical;
    else
        v_canonical := array_to_string(array[E'error\n' || array_to_string(v_types, ' < ')] || v_frames[1:3], E'\n');
    end if;
    return left(encode(sha256(convert_to(v_canonical, 'UTF8')), 'hex'), 16);
end
$function$;
