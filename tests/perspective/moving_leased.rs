//! Moving the rows of an instance to the dead letters, all in one call.

use reprieve::model::{FailureReason, SourceTable};
use reprieve::store::perspective::{DoomedRow, LeasedMove, LeasedMoves};
use serde_json::json;

use super::{arrives_as, claims};
use crate::harness::rows::with;
use crate::harness::{Backend, at, id, inbox_row, instance, outbox_row, source, time_text};

fn doomed(n: u64) -> DoomedRow {
    DoomedRow { source_id: source(n), dead_letter_id: id(n), error_text: format!("row {n} is spent") }
}

async fn moves(store: &Backend, source_table: SourceTable, rows: &[DoomedRow], who: u64) -> Vec<LeasedMove> {
    let request = LeasedMoves {
        source_table,
        rows,
        failure_reason: FailureReason::MAX_ATTEMPTS_EXCEEDED,
        instance_id: instance(who),
        generation: "g1",
        now: Some(at(10)),
    };
    store.move_leased(&request).await.unwrap()
}

/// The statements after which no dead letter of the `n`-th source can be made.
pub fn refuse_dead_letter(store: &Backend, n: u64) -> String {
    let condition = format!("new.source_id = '{}'", source(n));
    if store.is_postgres() {
        return format!(
            "create function refuse_death() returns trigger language plpgsql as $$
             begin raise exception 'no death for {n}'; end $$;
             create trigger refuse_death before insert on wh_dead_letters for each row
             when ({condition}) execute function refuse_death()"
        );
    }
    format!(
        "create trigger refuse_death before insert on wh_dead_letters when {condition}
         begin select raise(abort, 'no death for {n}'); end"
    )
}

on_both_stores! {
    async fn each_row_has_its_own_outcome(store: Backend) {
        store.execute(&refuse_dead_letter(&store, 3)).await;
        for n in [1, 3, 5] {
            arrives_as(&store, n, 1, json!({"attempts": 10})).await;
        }
        claims(&*store, 1, 1, 0).await;
        arrives_as(&store, 2, 2, json!({"instance_id": instance(2), "lease_expiry": time_text(at(99))})).await;

        let outcomes =
            moves(&store, SourceTable::PerspectiveEvents, &[doomed(5), doomed(3), doomed(9), doomed(2), doomed(1)], 1)
                .await;

        assert!(matches!(&outcomes[1], LeasedMove::Failed(problem) if problem.contains("no death for 3")));
        let expected = [&LeasedMove::Moved, &outcomes[1], &LeasedMove::Gone, &LeasedMove::Gone, &LeasedMove::Moved];
        assert_eq!(outcomes.iter().collect::<Vec<_>>(), expected);
        assert_eq!(store.rows_in("wh_dead_letters").await, 2);
        assert_eq!(store.rows_in("wh_perspective_events").await, 2, "the others are where they were");
        let letter = store.letter(id(5)).await;
        assert_eq!((letter.source_table, letter.source_id), (SourceTable::PerspectiveEvents, source(5)));
        assert_eq!((letter.attempts_when_dlq, letter.dead_lettered_by), (11, Some(instance(1))));
        assert_eq!((letter.failure_reason, letter.dead_lettered_at), (FailureReason(5), at(10)));
        assert_eq!(letter.error_text.as_deref(), Some("row 5 is spent"));
        assert_eq!((letter.generation.as_str(), letter.source_position), ("g1", Some(5)));
    }

    async fn a_row_that_was_released_or_processed_is_not_taken(store: Backend) {
        arrives_as(&store, 1, 1, json!({"attempts": 12})).await;
        let done = json!({"attempts": 12, "instance_id": instance(1), "processed_at": time_text(at(0))});
        arrives_as(&store, 2, 2, done).await;

        let outcomes = moves(&store, SourceTable::PerspectiveEvents, &[doomed(1), doomed(2)], 1).await;

        assert_eq!(outcomes, [LeasedMove::Gone, LeasedMove::Gone]);
        assert_eq!(store.rows_in("wh_dead_letters").await, 0);
    }

    async fn inbox_and_outbox_are_fenced_the_same_way(store: Backend) {
        for n in [1, 2] {
            let open = json!({"instance_id": instance(n), "processed_at": null});
            store.insert("wh_outbox", &with(outbox_row(n), open.clone())).await;
            store.insert("wh_inbox", &with(inbox_row(n + 10), open)).await;
        }

        let outbox = moves(&store, SourceTable::Outbox, &[doomed(1), doomed(2)], 1).await;
        let inbox = moves(&store, SourceTable::Inbox, &[doomed(11), doomed(12)], 1).await;

        assert_eq!(outbox, [LeasedMove::Moved, LeasedMove::Gone]);
        assert_eq!(inbox, outbox);
        assert_eq!((store.rows_in("wh_outbox").await, store.rows_in("wh_inbox").await), (1, 1));
        assert_eq!(store.letter(id(1)).await.message_type, "OrderPlaced");
    }

    async fn nothing_to_move_is_nothing_done(store: Backend) {
        assert_eq!(moves(&store, SourceTable::PerspectiveEvents, &[], 1).await, []);
    }
}
