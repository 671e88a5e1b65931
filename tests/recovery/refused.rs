//! Dead letters whose own change the database refuses, as a trigger does, or a rule made after they had broken it.

use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::recovery::{RecoveryOptions, ScanCounts, Scanner};
use serde_json::{Value, json};

use super::host::{host, is_back};
use super::policies::host_with;
use crate::harness::backend::{on_postgres, on_sqlite};
use crate::harness::{Backend, at, id, stream, time_text};
use crate::policy::guests::ordering;

const NEVER_RECOVERED: &str = "new.recovery_status = 3 and new.message_type = 'Refused'";

/// A throttled row; the default matrix has three tries for it.
async fn dead(store: &Backend, n: u64, kind: &str, changes: Value) {
    let made = json!({ "message_type": kind, "source_created_at": time_text(at(i64::try_from(n).unwrap())) });
    store.dead(n, crate::harness::rows::with(made, changes)).await;
}

async fn rows_with_refused(store: &Backend, rows: u64, refused: &[u64]) {
    for n in 1..=rows {
        dead(store, n, if refused.contains(&n) { "Refused" } else { "OrderPlaced" }, json!({ "stream_id": null }))
            .await;
    }
}

/// A row of a stream.
async fn in_stream(store: &Backend, n: u64, kind: &str, of: u64) {
    dead(store, n, kind, json!({ "stream_id": stream(of) })).await;
}

async fn scan(store: &Backend) -> ScanCounts {
    Scanner { now: Some(at(60)), ..host(store).await }.until_idle().await.unwrap()
}

/// A sweep for a later build comes between the begin of a batch and its settling.
async fn grants_a_credit_to_what_is_begun(store: &Backend) {
    let at = time_text(at(60));
    let grant = format!(
        "update wh_dead_letters set replay_credit = 'g9', replay_credit_at = '{at}' where message_type = 'Refused'"
    );
    let trigger = if store.is_postgres() {
        format!(
            "create function grants() returns trigger language plpgsql as $$ begin {grant}; return new; end $$;
             create trigger grants after update of phase on wh_recovery_batches for each row execute function grants()"
        )
    } else {
        format!("create trigger grants after update of phase on wh_recovery_batches begin {grant}; end")
    };
    store.execute(&trigger).await;
}

async fn attempts(store: &Backend) -> Vec<i64> {
    let rows = store.query("select recovery_attempts as n from wh_dead_letters order by dead_letter_id").await;
    rows.iter().map(|row| row["n"].as_i64().unwrap()).collect()
}

on_both_stores! {
    async fn a_row_that_may_not_be_recovered_fails_and_costs_the_others_nothing(store: Backend) {
        rows_with_refused(&store, 7, &[3, 4]).await;
        store.refuse_changes(NEVER_RECOVERED).await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (5, 2));
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_recovery_batches").await), (5, 0));
        assert_eq!(attempts(&store).await, [1; 7]);
        for n in [3, 4] {
            let letter = store.letter(id(n)).await;
            let failed = (RecoveryStatus::Pending, Some(Deferral::Failure));
            assert_eq!((letter.recovery_status, letter.deferral), failed, "as after any other failure");
            assert_eq!(letter.status_note.as_deref(), Some("not re-emitted: never"));
        }
        let recorded = "select count(*) as n from wh_dead_letter_decisions where note = 'not re-emitted: never'";
        assert_eq!(store.value(recorded).await, json!(2));
    }

    async fn a_row_that_may_not_change_at_all_stays_in_a_batch_alone(store: Backend) {
        rows_with_refused(&store, 7, &[3]).await;
        store.refuse_changes("new.message_type = 'Refused'").await;
        let before = store.raw_letter(id(3)).await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (6, 1));
        assert_eq!((store.rows_in("wh_outbox").await, store.raw_letter(id(3)).await), (6, before));
        let in_hand = store.query("select ids, phase, streams from wh_recovery_batches").await;
        assert!(in_hand.len() == 1 && in_hand[0]["ids"].to_string().contains(&id(3).to_string()), "{in_hand:?}");
        assert_eq!(in_hand[0]["phase"], "recovering");
    }

    async fn a_change_that_is_passed_over_in_silence_is_not_taken_for_done(store: Backend) {
        rows_with_refused(&store, 4, &[2]).await;
        store.pass_over_changes("new.message_type = 'Refused'").await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (3, 1));
        assert!(!is_back(&store, 2).await, "it would come back again and again");
        assert_eq!(store.rows_in("wh_outbox").await, 3);
    }

    async fn those_behind_it_in_its_stream_wait_and_no_others(store: Backend) {
        for n in 1..=8 {
            in_stream(&store, n, if n == 3 { "Refused" } else { "OrderPlaced" }, n % 2).await;
        }
        store.refuse_changes(NEVER_RECOVERED).await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (5, 1));
        for (n, back) in [(1, true), (2, true), (4, true), (5, false), (6, true), (7, false), (8, true)] {
            assert_eq!(is_back(&store, n).await, back, "row {n}");
        }
        for n in [5, 7] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_attempts, letter.deferral), (0, Some(Deferral::Stream)));
        }
    }

    async fn a_credit_that_was_granted_meanwhile_keeps_the_row_in_the_way_of_those_behind_it(store: Backend) {
        in_stream(&store, 1, "Refused", 1).await;
        // Its last try: it would be given up, and in nobody's way.
        store.execute("update wh_dead_letters set recovery_attempts = 2").await;
        in_stream(&store, 2, "OrderPlaced", 1).await;
        store.refuse_changes(NEVER_RECOVERED).await;
        grants_a_credit_to_what_is_begun(&store).await;

        let counts = scan(&store).await;

        assert_eq!(counts.recovered, 0);
        assert_eq!(store.letter(id(1)).await.recovery_status, RecoveryStatus::Pending);
        assert!(!is_back(&store, 2).await, "it would be re-emitted before the first");
    }

    async fn those_behind_one_that_may_not_change_at_all_wait_though_it_would_be_given_up(store: Backend) {
        in_stream(&store, 1, "Refused", 1).await;
        // Its last try.
        store.execute("update wh_dead_letters set recovery_attempts = 2").await;
        for (n, of) in [(2, 1), (3, 2), (4, 1), (5, 3)] {
            in_stream(&store, n, "OrderPlaced", of).await;
        }
        store.refuse_changes("new.message_type = 'Refused'").await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (2, 1));
        assert_eq!(attempts(&store).await, [2, 0, 1, 0, 1]);
        in_stream(&store, 6, "OrderPlaced", 2).await;
        in_stream(&store, 7, "OrderPlaced", 1).await;
        assert_eq!(scan(&store).await.recovered, 1, "its batch keeps its own stream and no other");
        assert!(is_back(&store, 6).await);
    }

    async fn one_that_is_kept_back_and_may_not_be_costs_the_others_no_attempt(store: Backend) {
        in_stream(&store, 1, "Refused", 1).await;
        in_stream(&store, 2, "Stuck", 1).await;
        for n in 3..=9 {
            in_stream(&store, n, "OrderPlaced", n).await;
        }
        store.refuse_changes(&format!("{NEVER_RECOVERED} or new.message_type = 'Stuck'")).await;
        let host = Scanner { now: Some(at(60)), ..host(&store).await };

        let mut turns = 0;
        while host.until_idle().await.is_err() {
            turns += 1;
            assert!(turns < 12, "batches shrink until the row stands alone");
        }

        assert_eq!(attempts(&store).await, [1, 0, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(store.rows_in("wh_outbox").await, 7);
    }

    async fn one_that_waits_behind_a_row_of_the_batch_refuses_nothing_but_to_be_woken(store: Backend) {
        for n in 1..=4 {
            in_stream(&store, n, "OrderPlaced", n).await;
        }
        for (n, of) in [(20, 1), (21, 2)] {
            let waits = json!({ "deferral": "stream", "next_recovery_at": time_text(at(5000)), "stream_id": stream(of) });
            dead(&store, n, "Waits", waits).await;
        }
        store.refuse_changes_of(id(20)).await;

        let counts = scan(&store).await;

        assert_eq!(counts.recovered, 5);
        assert!(is_back(&store, 21).await && !is_back(&store, 20).await);
    }

    async fn where_nothing_may_change_at_all_nothing_is_counted_and_the_fault_is_told(store: Backend) {
        rows_with_refused(&store, 20, &[]).await;
        store.refuse_changes("new.message_type = 'OrderPlaced'").await;
        let options = RecoveryOptions { scan_batch_size: 1000, ..RecoveryOptions::default() };

        let scanner = Scanner { options: options.into(), now: Some(at(60)), ..host(&store).await };
        let told = scanner.until_idle().await.unwrap_err();

        assert!(told.to_string().contains("never"), "{told}");
        assert_eq!((attempts(&store).await, store.rows_in("wh_outbox").await), (vec![0; 20], 0));
        assert_eq!(store.rows_in("wh_recovery_batches").await, 0, "all of them were given back");
    }

    async fn many_at_the_front_keep_nothing_behind_them_from_being_recovered(store: Backend) {
        rows_with_refused(&store, 40, &(1..=12).collect::<Vec<_>>()).await;
        store.refuse_changes("new.message_type = 'Refused'").await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (28, 12));
        assert_eq!(store.rows_in("wh_outbox").await, 28);
        let early = format!("wh_recovery_batches where expires_at < '{}'", time_text(at(60 + 600)));
        assert_eq!((store.rows_in("wh_recovery_batches").await, store.rows_in(&early).await), (12, 0), "they rest");
    }

    async fn one_that_keeps_no_order_is_in_nobodys_way_while_it_rests(store: Backend) {
        // What starts with an X stands by itself.
        let host = host_with(&store, ordering(), RecoveryOptions::default()).await;
        let host = Scanner { now: Some(at(60)), ..host };
        in_stream(&store, 1, "Xrefused", 1).await;
        in_stream(&store, 2, "X", 1).await;
        store.refuse_changes("new.message_type = 'Xrefused'").await;
        assert_eq!(host.until_idle().await.unwrap().failed, 1);

        in_stream(&store, 3, "X", 1).await;
        host.until_idle().await.unwrap();

        assert!(is_back(&store, 2).await && is_back(&store, 3).await);
    }

    async fn a_recovery_by_name_that_is_passed_over_in_silence_is_an_error_and_emits_nothing(store: Backend) {
        rows_with_refused(&store, 1, &[1]).await;
        store.pass_over_changes("new.message_type = 'Refused'").await;

        let told = store.recover_dead_letter(id(1), Some(at(60))).await.unwrap_err();

        assert!(told.to_string().contains("was not carried out"), "{told}");
        assert_eq!(store.rows_in("wh_outbox").await, 0);
    }

    async fn many_of_them_are_found_in_small_and_large_batches(store: Backend) {
        let refused: Vec<u64> = (1..=60).filter(|n| n % 7 < 3).collect();
        rows_with_refused(&store, 60, &refused).await;
        store.refuse_changes(NEVER_RECOVERED).await;
        let options = RecoveryOptions { scan_batch_size: 1000, ..RecoveryOptions::default() };

        let scanner = Scanner { options: options.into(), now: Some(at(60)), ..host(&store).await };
        let counts = scanner.until_idle().await.unwrap();

        assert_eq!((counts.recovered, counts.failed), (60 - refused.len() as u64, refused.len() as u64));
        assert_eq!(attempts(&store).await, [1; 60]);
    }
}

#[test]
fn a_trigger_that_finds_an_argument_wrong_is_about_its_row() {
    on_postgres(async |store| {
        rows_with_refused(&store, 5, &[2]).await;
        store.on_changes(NEVER_RECOVERED, "perform jsonb_each('1'::jsonb);", "").await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (4, 1));
        assert_eq!(attempts(&store).await, [1; 5]);
    });
}

#[test]
fn a_trigger_that_rolls_everything_back_takes_no_other_row_along() {
    on_sqlite(async |store| {
        rows_with_refused(&store, 5, &[2]).await;
        let trigger = "create trigger refuse before insert on wh_outbox when new.message_type = 'Refused'
                       begin select raise(rollback, 'all of it'); end";
        store.execute(trigger).await;

        let counts = scan(&store).await;

        assert_eq!((counts.recovered, counts.failed), (4, 1));
        assert_eq!(attempts(&store).await, [1; 5]);
        let note = store.letter(id(2)).await.status_note;
        assert!(note.as_ref().is_some_and(|note| note.contains("all of it")), "{note:?}");
    });
}

#[test]
fn a_row_whose_trigger_rolls_everything_back_fails_by_name_too() {
    on_sqlite(async |store| {
        rows_with_refused(&store, 1, &[1]).await;
        let trigger = "create trigger refuse before insert on wh_outbox begin select raise(rollback, 'all of it'); end";
        store.execute(trigger).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 1));
        assert_eq!(letter.status_note.as_deref(), Some("not re-emitted: all of it"));
    });
}
