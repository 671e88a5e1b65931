//! The names and types that applications compile against.

use super::database;

const CONTRACT: &str = "\
fetch_dead_letters_due|p_now timestamp with time zone, p_max integer
mark_dead_letter_holding|p_dead_letter_id uuid
mark_dead_letter_permanently_failed|p_dead_letter_id uuid
move_to_dead_letters|p_dead_letter_id uuid, p_source_table text, p_source_id uuid, p_failure_reason integer, p_error_text text, p_instance_id uuid, p_generation text
recover_dead_letter|p_dead_letter_id uuid
reset_dead_letters_for_generation|p_generation text
schedule_next_dead_letter_attempt|p_dead_letter_id uuid, p_next_recovery_at timestamp with time zone";

const OF_CONTRACT: &str = "
  from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname in (
    'fetch_dead_letters_due', 'mark_dead_letter_holding', 'mark_dead_letter_permanently_failed', 'move_to_dead_letters',
    'recover_dead_letter', 'reset_dead_letters_for_generation', 'schedule_next_dead_letter_attempt')";

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
        "mark_dead_letter_holding|void\nmark_dead_letter_permanently_failed|void\nmove_to_dead_letters|uuid\n\
         recover_dead_letter|boolean\nreset_dead_letters_for_generation|integer\nschedule_next_dead_letter_attempt|void"
    );
}
