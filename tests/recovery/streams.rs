//! Rows of a stream come back in the order of the stream, whatever the order in which they died.

use reprieve::model::{FailureReason, RecoveryStatus, SourceTable};
use reprieve::recovery::{RecoveryOptions, Scanner};
use reprieve::store::Move;
use serde_json::json;

use super::host::{Told, host};
use crate::harness::rows::{event_row, moving, perspective_row, with};
use crate::harness::{Backend, arrivals, at, id, outbox_row, source, stream, time_text, watch_arrivals};

/// The `n`-th dead letter: a throttled message of a stream, whose messages were made in the order of their numbers.
pub async fn of_stream(store: &Backend, n: u64, stream_number: u64, changes: serde_json::Value) {
    let made = json!({ "stream_id": stream(stream_number), "source_created_at": made_at(n) });
    store.dead(n, with(made, changes)).await;
}

/// When the `n`-th message was made.
fn made_at(n: u64) -> String {
    time_text(at(i64::try_from(n).unwrap() - 100_000))
}

/// Every number below `count`, each once, in an order of its own.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |place| (place * 37 + 11) % count)
}

/// Puts messages there as an application does, and has them die in shuffled order, a second after another: `of_each` of
/// each of the streams, in turn.
async fn die_shuffled(store: &Backend, streams: u64, of_each: u64) {
    for n in 0..streams * of_each {
        let row = json!({ "stream_id": stream(n % streams), "created_at": made_at(n) });
        store.insert("wh_outbox", &with(outbox_row(n), row)).await;
    }
    for (n, seconds) in shuffled(streams * of_each).zip(0..) {
        let request = Move { now: Some(at(seconds)), ..moving(SourceTable::Outbox, n) };
        store.move_to_dead_letters(&request).await.unwrap().expect("it was there");
    }
}

/// A host with options of its own.
pub async fn host_that(store: &Backend, options: RecoveryOptions) -> Scanner {
    Scanner { options: options.into(), ..host(store).await }
}

on_both_stores! {
    async fn five_streams_of_twenty_dead_rows_that_died_in_shuffled_order_come_back_in_theirs(store: Backend) {
        die_shuffled(&store, 5, 20).await;
        watch_arrivals(&store).await;

        let counts = host(&store).await.scans_at(at(1000)).await;

        assert_eq!(counts.recovered, 100);
        let arrived = arrivals(&store).await;
        for of in 0..5 {
            let of_one: Vec<u64> = arrived.iter().copied().filter(|n| n % 5 == of).collect();
            assert_eq!(of_one, (0..20).map(|n| n * 5 + of).collect::<Vec<_>>());
        }
    }

    async fn they_do_across_small_batches_and_lanes_and_hosts(store: Backend) {
        die_shuffled(&store, 5, 20).await;
        watch_arrivals(&store).await;
        let options = RecoveryOptions { scan_batch_size: 7, lanes: 3, ..Default::default() };
        let (one, two) = (host_that(&store, options.clone()).await, host_that(&store, options).await);

        let (first, second) = tokio::join!(one.scans_at(at(1000)), two.scans_at(at(1000)));
        let rest = one.scans_at(at(1000)).await;

        assert_eq!((first + second + rest).recovered, 100);
        let arrived = arrivals(&store).await;
        for of in 0..5 {
            let of_one: Vec<u64> = arrived.iter().copied().filter(|n| n % 5 == of).collect();
            assert_eq!(of_one, (0..20).map(|n| n * 5 + of).collect::<Vec<_>>());
        }
    }

    async fn a_long_stream_that_died_backwards_is_not_looked_at_over_and_over(store: Backend) {
        for n in 1..=600 {
            of_stream(&store, n, 1, json!({ "source_created_at": made_at(1000 - n) })).await;
        }
        watch_arrivals(&store).await;
        let options = RecoveryOptions { scan_batch_size: 50, ..Default::default() };

        let counts = host_that(&store, options).await.scans_at(at(1000)).await;

        assert_eq!(counts.recovered, 600);
        // What was claimed before it was known that the policy keeps the order.
        assert!(counts.blocked <= 2 * 50, "{counts:?}");
        assert_eq!(arrivals(&store).await, (1..=600).rev().collect::<Vec<_>>());
    }

    async fn rows_that_died_in_any_order_are_decided_once(store: Backend) {
        die_shuffled(&store, 40, 20).await;
        watch_arrivals(&store).await;
        let options = RecoveryOptions { scan_batch_size: 20, ..Default::default() };

        let counts = host_that(&store, options).await.scans_at(at(1000)).await;

        assert_eq!(counts.recovered, 800);
        // Those of the first batches, which were claimed before it was known that the policy keeps the order.
        let batches_at_once = 2 * u64::from(RecoveryOptions::default().lanes);
        assert!(counts.blocked <= batches_at_once * 20, "{counts:?}");
        let arrived = arrivals(&store).await;
        for of in 0..40 {
            assert!(arrived.iter().filter(|n| *n % 40 == of).is_sorted());
        }
    }

    async fn rows_of_one_transaction_keep_the_order_also_where_some_have_no_source_row(store: Backend) {
        watch_arrivals(&store).await;
        for n in 1..=6 {
            let row = json!({ "stream_id": stream(1), "created_at": made_at(n) });
            store.insert("wh_outbox", &with(outbox_row(n), row)).await;
            if n % 2 == 0 {
                store.move_to_dead_letters(&moving(SourceTable::Outbox, n)).await.unwrap();
            } else {
                store.execute(&format!("delete from wh_outbox where message_id = '{}'", source(n))).await;
                of_stream(&store, n, 1, json!({})).await;
            }
        }
        store.execute("delete from arrivals").await;

        let counts = host(&store).await.scans_at(at(1000)).await;

        assert_eq!((counts.recovered, counts.blocked), (6, 0));
        assert_eq!(arrivals(&store).await, [1, 2, 3, 4, 5, 6]);
    }

    async fn rows_of_a_perspective_go_by_their_position_and_other_perspectives_go_on(store: Backend) {
        store.execute(&refuse_first(&store)).await;
        for n in 1..=3 {
            let event = json!({ "stream_id": stream(1), "commit_sequence": 10 - n });
            store.insert("wh_event_store", &with(event_row(n), event.clone())).await;
            store.insert("wh_event_store", &with(event_row(n + 10), event)).await;
            for (work, perspective) in [(n, "orders"), (n + 10, "totals")] {
                let row = json!({ "stream_id": stream(1), "perspective_name": perspective });
                store.insert("wh_perspective_events", &with(perspective_row(work), row)).await;
                let request = Move {
                    failure_reason: FailureReason(8),
                    now: Some(at(i64::try_from(n).unwrap())),
                    ..moving(SourceTable::PerspectiveEvents, work)
                };
                store.move_to_dead_letters(&request).await.unwrap().expect("moved");
            }
        }

        let counts = host(&store).await.scans_at(at(1000)).await;

        assert_eq!((counts.recovered, counts.failed), (3, 1), "{counts:?}");
        for n in [1, 2] {
            assert_eq!(store.letter(id(n)).await.recovery_status, RecoveryStatus::Pending, "3 stands before them");
        }
        assert_eq!(store.rows_in("wh_perspective_events").await, 3, "those of the other perspective");
        let waits = store.waits_for(&[id(1), id(2), id(3)]).await.unwrap();
        assert_eq!((waits.get(&id(1)), waits.get(&id(2)), waits.get(&id(3))), (Some(&id(3)), Some(&id(3)), None));
    }
}

/// The table refuses the third event's row of the perspective `orders`.
fn refuse_first(store: &Backend) -> String {
    let third = source(3);
    if store.is_postgres() {
        return format!(
            "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no way'; end $$;
             create trigger refuse before insert on wh_perspective_events for each row
             when (new.event_work_id = '{third}' and new.attempts = 0) execute function refuse()"
        );
    }
    format!(
        "create trigger refuse before insert on wh_perspective_events
         when new.event_work_id = '{third}' and new.attempts = 0 begin select raise(abort, 'no way'); end"
    )
}

#[test]
fn a_long_stream_is_worked_through_in_few_passes_over_what_is_due() {
    crate::harness::backend::on_postgres(async |store| {
        const BATCHES: u64 = 40;
        for n in 0..BATCHES * 5 {
            of_stream(&store, n, 1, json!({})).await;
        }
        let options = RecoveryOptions { lanes: 2, scan_batch_size: 5, ..RecoveryOptions::default() };
        let host = host_that(&store, options).await;

        assert_eq!(host.scans_at(at(1000)).await.recovered, BATCHES * 5);

        // One for each batch, and a few of lanes that found the stream in another one's hand.
        let scans = host.metrics.totals().total_scans;
        assert!(scans < BATCHES * 2, "{scans} scans");
    });
}
