//! The names and types that applications compile against.

use super::database;

const CONTRACT: &str = "\
claim_and_fetch_pending_perspective_events|p_stream_id uuid, p_perspective_name text, p_instance_id uuid, p_lease_seconds integer, p_now timestamp with time zone
claim_orphaned_perspective_events|p_instance_id uuid, p_max integer, p_now timestamp with time zone, p_lease_seconds integer
complete_perspective_events|p_instance_id uuid, p_event_work_ids uuid[]
fail_perspective_events|p_instance_id uuid, p_event_work_ids uuid[], p_errors text[], p_failure_reasons integer[]
fetch_dead_letters_due|p_now timestamp with time zone, p_max integer
get_stream_events|p_instance_id uuid, p_stream_ids uuid[], p_now timestamp with time zone, p_lease_seconds integer
heartbeat_service_instance|p_instance_id uuid, p_service_name text, p_host_name text, p_process_id integer, p_metadata jsonb, p_now timestamp with time zone
mark_dead_letter_holding|p_dead_letter_id uuid
mark_dead_letter_permanently_failed|p_dead_letter_id uuid
move_to_dead_letters|p_dead_letter_id uuid, p_source_table text, p_source_id uuid, p_failure_reason integer, p_error_text text, p_instance_id uuid, p_generation text
recover_dead_letter|p_dead_letter_id uuid
remove_stale_service_instances|p_now timestamp with time zone, p_silent_seconds integer
reset_dead_letters_for_generation|p_generation text
schedule_next_dead_letter_attempt|p_dead_letter_id uuid, p_next_recovery_at timestamp with time zone";

const OF_CONTRACT: &str = "
  from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname in (
    'fetch_dead_letters_due', 'mark_dead_letter_holding', 'mark_dead_letter_permanently_failed', 'move_to_dead_letters',
    'recover_dead_letter', 'reset_dead_letters_for_generation', 'schedule_next_dead_letter_attempt', 'get_stream_events',
    'claim_and_fetch_pending_perspective_events', 'claim_orphaned_perspective_events', 'complete_perspective_events',
    'fail_perspective_events', 'heartbeat_service_instance', 'remove_stale_service_instances')";

#[test]
fn each_function_exists_once_with_its_arguments() {
    let found = database()
        .run(&format!("select proname, pg_get_function_identity_arguments(oid) {OF_CONTRACT} order by proname;"));

    let types = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| {
                line.split(&['|', ','][..])
                    .map(|part| {
                        part.trim()
                            .split_once(' ')
                            .map_or(part, |(name, kind)| {
                                assert!(name.starts_with("p_"), "{line}: parameters are called p_…");
                                kind
                            })
                            .to_owned()
                    })
                    .collect::<Vec<_>>()
                    .join(",")
            })
            .collect()
    };
    assert_eq!(types(&found), types(CONTRACT));
}

#[test]
fn they_run_with_the_callers_rights_and_fix_their_search_path() {
    let loose = database().run(&format!(
        "select proname {OF_CONTRACT} and (prosecdef or not coalesce(proconfig::text ~ 'search_path=', false));"
    ));

    assert_eq!(loose, "");
}

#[test]
fn they_return_what_the_contract_says() {
    let database = database();
    let returned =
        database.run(&format!("select proname, prorettype::regtype {OF_CONTRACT} and not proretset order by proname;"));

    assert_eq!(
        returned,
        "heartbeat_service_instance|void\nmark_dead_letter_holding|void\nmark_dead_letter_permanently_failed|void\nmove_to_dead_letters|uuid\n\
         recover_dead_letter|boolean\nreset_dead_letters_for_generation|integer\nschedule_next_dead_letter_attempt|void"
    );
}

#[test]
fn the_functions_for_drainers_return_these_columns() {
    let returned = |name: &str| {
        database().run(&format!("select pg_get_function_result(oid) from pg_proc where proname = '{name}';"))
    };
    let events = "TABLE(stream_id uuid, event_id uuid, event_work_id uuid, perspective_name text, event_type text, \
        event_data jsonb, metadata jsonb, commit_sequence bigint, attempts integer)";

    assert_eq!(returned("get_stream_events"), events);
    assert_eq!(returned("claim_and_fetch_pending_perspective_events"), events);
    let orphans = "TABLE(event_work_id uuid, stream_id uuid, perspective_name text)";
    assert_eq!(returned("claim_orphaned_perspective_events"), orphans);
    for report in ["complete_perspective_events", "fail_perspective_events"] {
        assert_eq!(returned(report), "TABLE(event_work_id uuid)");
    }
}
