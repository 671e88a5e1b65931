//! Taking over what dead instances hold.

use reprieve::store::perspective::{Heartbeat, Orphan, OrphanClaim};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{LEASE, arrives_as, attempts, claims, row};
use crate::harness::{Backend, at, instance, source, stream, time_text};

fn held_by(who: u64, until: i64) -> Value {
    json!({"instance_id": instance(who), "lease_expiry": time_text(at(until)), "attempts": 1})
}

async fn is_alive(store: &Backend, who: u64, seconds: i64) {
    let heartbeat = Heartbeat {
        instance_id: instance(who),
        service_name: "shop",
        host_name: "h1",
        process_id: 7,
        now: Some(at(seconds)),
    };
    store.heartbeat(&heartbeat).await.unwrap();
}

async fn orphans(store: &Backend, who: u64, max: u32, seconds: i64) -> Vec<Orphan> {
    let now = Some(at(seconds));
    let claim = OrphanClaim { instance_id: instance(who), max, in_order: false, lease: LEASE, now };
    store.claim_orphaned_events(&claim).await.unwrap()
}

fn ids(orphans: &[Orphan]) -> Vec<Uuid> {
    orphans.iter().map(|orphan| orphan.event_work_id).collect()
}

on_both_stores! {
    async fn a_lapsed_row_of_an_unknown_instance_is_taken_over_and_counts(store: Backend) {
        arrives_as(&store, 1, 1, held_by(9, 0)).await;

        let taken = orphans(&store, 1, 10, 0).await;

        let expected =
            Orphan { event_work_id: source(1), stream_id: stream(1), perspective_name: "totals".to_owned() };
        assert_eq!(taken, [expected]);
        assert_eq!(attempts(&store, 1).await, 2);
        let row = row(&store, 1).await;
        assert_eq!(row["instance_id"], json!(instance(1)));
        assert_eq!(row["lease_expiry"], json!(time_text(at(60))));
        assert_eq!(claims(&*store, 1, 1, 1).await[0].attempts, 2, "fetching it does not count again");
    }

    async fn an_instance_is_dead_after_five_minutes_of_silence(store: Backend) {
        arrives_as(&store, 1, 1, held_by(9, 0)).await;
        is_alive(&store, 9, 0).await;

        assert_eq!(orphans(&store, 1, 10, 300).await, []);
        assert_eq!(attempts(&store, 1).await, 1);
        assert_eq!(ids(&orphans(&store, 1, 10, 301).await), [source(1)]);
    }

    async fn what_is_leased_scheduled_free_own_or_done_is_no_orphan(store: Backend) {
        arrives_as(&store, 1, 1, held_by(9, 100)).await;
        arrives_as(&store, 2, 2, json!({"scheduled_for": time_text(at(100)), "instance_id": instance(9)})).await;
        arrives_as(&store, 3, 3, json!({})).await;
        arrives_as(&store, 4, 4, held_by(1, 0)).await;
        arrives_as(&store, 5, 5, json!({"instance_id": instance(9), "processed_at": time_text(at(0))})).await;

        assert_eq!(orphans(&store, 1, 10, 50).await, []);
    }

    async fn the_earliest_of_a_stream_come_first(store: Backend) {
        for (n, on) in [(4, 1), (2, 1), (3, 2), (1, 1)] {
            arrives_as(&store, n, on, held_by(9, 0)).await;
        }

        assert_eq!(ids(&orphans(&store, 1, 2, 0).await), [source(1), source(2)]);
        assert_eq!(ids(&orphans(&store, 2, 10, 0).await), [source(3)], "what is behind those of another stays");
        assert_eq!(ids(&orphans(&store, 1, 10, 1).await), [source(4)]);
    }

    async fn an_instance_that_is_silent_for_long_is_forgotten(store: Backend) {
        is_alive(&store, 1, 0).await;
        is_alive(&store, 2, 0).await;
        is_alive(&store, 2, 100).await;

        let removed = store.remove_stale_instances(std::time::Duration::from_secs(300), Some(at(301))).await.unwrap();

        assert_eq!(removed, [instance(1)]);
        let rows = store.query("select * from wh_service_instances").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["started_at"], json!(time_text(at(0))));
        assert_eq!(rows[0]["last_heartbeat_at"], json!(time_text(at(100))));
        assert_eq!((&rows[0]["service_name"], &rows[0]["process_id"]), (&json!("shop"), &json!(7)));
    }
}
