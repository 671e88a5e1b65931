//! Dead letters whose own change the database refuses, as a trigger or a rule made after they had broken it does.

use reprieve::model::RecoveryStatus;
use reprieve::store::{Outcome, Settled};
use serde_json::json;

use super::streams::{LENIENT, made_at, woken};
use super::streams_settling::{outcomes, settle_in_order};
use crate::harness::backend::on_sqlite;
use crate::harness::batches::{ended, waiting};
use crate::harness::{Backend, at, claim, id, recover_all, stream, time_text};

const NEVER_RECOVERED: &str = "new.recovery_status = 3 and new.message_type = 'Refused'";

async fn rows_with_refused(store: &Backend, rows: u64, refused: &[u64]) {
    for n in 1..=rows {
        let kind = if refused.contains(&n) { "Refused" } else { "OrderPlaced" };
        store.dead(n, json!({ "message_type": kind })).await;
    }
}

fn outcome(settled: &[Settled], n: u64) -> &Outcome {
    &settled.iter().find(|row| row.dead_letter_id == id(n)).unwrap().outcome
}

on_both_stores! {
    async fn a_row_that_may_not_be_recovered_fails_and_costs_the_others_nothing(store: Backend) {
        rows_with_refused(&store, 6, &[3, 4]).await;
        store.refuse_changes(NEVER_RECOVERED).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(outcomes(&settled), ['r', 'r', 'f', 'f', 'r', 'r']);
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_recovery_batches").await), (4, 0));
        for n in [3, 4] {
            let letter = store.letter(id(n)).await;
            assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 1));
            assert_eq!(letter.next_recovery_at, Some(at(160)), "as after any other failure");
            assert_eq!(letter.status_note.as_deref(), Some("not re-emitted: never"));
        }
        let recorded = "select count(*) as n from wh_dead_letter_decisions where note = 'not re-emitted: never'";
        assert_eq!(store.value(recorded).await, json!(2));
    }

    async fn those_behind_it_in_its_stream_wait(store: Backend) {
        for n in 1..=6 {
            let kind = if n == 3 { "Refused" } else { "OrderPlaced" };
            let row = json!({ "message_type": kind, "stream_id": stream(n % 2) });
            made_at(&store, n, i64::try_from(n).unwrap(), row).await;
        }
        store.refuse_changes(NEVER_RECOVERED).await;

        let settled = settle_in_order(&store, LENIENT, waiting(at(101), 60)).await;

        let of = |n| outcome(&settled, n).clone();
        assert_eq!([1, 2, 4, 6].map(of), [const { Outcome::Recovered }; 4]);
        assert_eq!((of(3), of(5)), (Outcome::Failed("never".to_owned()), Outcome::Blocked));
    }

    async fn a_row_that_may_not_change_at_all_stays_in_its_batch_alone(store: Backend) {
        rows_with_refused(&store, 6, &[3]).await;
        store.refuse_changes("new.message_type = 'Refused'").await;
        let before = store.raw_letter(id(3)).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(outcomes(&settled), ['r', 'r', 'u', 'r', 'r', 'r']);
        assert_eq!(*outcome(&settled, 3), Outcome::Unsettled("never".to_owned()));
        assert_eq!((store.rows_in("wh_outbox").await, store.raw_letter(id(3)).await), (5, before));
        let in_hand = store.query("select ids, phase from wh_recovery_batches").await;
        assert!(in_hand.len() == 1 && in_hand[0]["ids"].to_string().contains(&id(3).to_string()), "{in_hand:?}");
        assert_eq!(in_hand[0]["phase"], "recovering");
        assert!(claim(&*store, 10, at(110)).await.ids().is_empty(), "nobody else has it meanwhile");
    }

    async fn its_batch_keeps_its_own_stream_and_no_other(store: Backend) {
        for n in 1..=4 {
            let kind = if n == 3 { "Refused" } else { "OrderPlaced" };
            let of = if n == 4 { 3 } else { n };
            made_at(&store, n, i64::try_from(n).unwrap(), json!({ "message_type": kind, "stream_id": stream(of) })).await;
        }
        store.refuse_changes("new.message_type = 'Refused'").await;

        // Given up if it could be made to fail, and open, for it cannot.
        let settled = settle_in_order(&store, LENIENT, ended(RecoveryStatus::PermanentlyFailed)).await;

        let of = |n| outcome(&settled, n).clone();
        assert_eq!((of(3), of(4)), (Outcome::Unsettled("never".to_owned()), Outcome::Blocked));
        for n in [5, 6] {
            made_at(&store, n, 50, json!({ "stream_id": stream(n - 4) })).await;
        }
        made_at(&store, 7, 50, json!({ "stream_id": stream(3) })).await;
        assert_eq!(claim(&*store, 10, at(110)).await.ids(), [5, 6].map(id));
    }

    async fn one_that_waits_behind_a_row_of_the_batch_refuses_nothing_but_to_be_woken(store: Backend) {
        for n in 1..=4 {
            made_at(&store, n, i64::try_from(n).unwrap(), json!({ "stream_id": stream(n) })).await;
        }
        for (n, of) in [(20, 1), (21, 2)] {
            let waits = json!({ "deferral": "stream", "next_recovery_at": time_text(at(5000)), "stream_id": stream(of) });
            made_at(&store, n, 20, waits).await;
        }
        store.refuse_changes_of(id(20)).await;

        let settled = settle_in_order(&store, LENIENT, waiting(at(101), 60)).await;

        assert_eq!(outcomes(&settled), ['r'; 4]);
        assert_eq!(woken(&store, [20, 21]).await, [21]);
    }
}

#[test]
fn a_row_whose_trigger_rolls_everything_back_fails_by_name_too() {
    on_sqlite(async |store| {
        store.dead(1, json!({ "message_type": "Refused" })).await;
        let trigger = "create trigger refuse before insert on wh_outbox begin select raise(rollback, 'all of it'); end";
        store.execute(trigger).await;

        assert!(!store.recover_dead_letter(id(1), Some(at(60))).await.unwrap());

        let letter = store.letter(id(1)).await;
        assert_eq!((letter.recovery_status, letter.recovery_attempts), (RecoveryStatus::Pending, 1));
        assert_eq!(letter.status_note.as_deref(), Some("not re-emitted: all of it"));
    });
}

#[test]
fn a_trigger_that_rolls_everything_back_takes_no_other_row_along() {
    on_sqlite(async |store| {
        rows_with_refused(&store, 5, &[2]).await;
        let trigger = "create trigger refuse before insert on wh_outbox when new.message_type = 'Refused'
                       begin select raise(rollback, 'all of it'); end";
        store.execute(trigger).await;

        let settled = recover_all(&*store, at(100)).await;

        assert_eq!(outcomes(&settled), ['r', 'f', 'r', 'r', 'r']);
        assert_eq!(store.letter(id(2)).await.status_note.as_deref(), Some("not re-emitted: all of it"));
        assert_eq!(store.rows_in("wh_outbox").await, 4);
    });
}
