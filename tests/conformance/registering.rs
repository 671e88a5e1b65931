//! Hosts among the service's instances.

use reprieve::store::{HostBeat, HostPlace};
use serde_json::{Value, json};

use crate::harness::{Backend, at, instance, time_text};

async fn is_alive(store: &Backend, who: u64, seconds: i64) -> HostPlace {
    let beat = HostBeat {
        instance_id: instance(who),
        host_name: "h1",
        process_id: 7,
        metadata: r#"{"generation": "g1"}"#,
        now: Some(at(seconds)),
    };
    store.register_host(&beat).await.unwrap()
}

/// The instances that are registered, by id.
async fn registered(store: &Backend) -> Vec<Value> {
    let rows = store.query("select instance_id from wh_service_instances order by instance_id").await;
    rows.into_iter().map(|row| row["instance_id"].clone()).collect()
}

/// An instance of the application, last heard of long ago.
async fn application(store: &Backend, who: u64, service: &str) {
    let row = json!({
        "instance_id": instance(who), "service_name": service, "host_name": "h9", "process_id": 9,
        "started_at": time_text(at(-9000)), "last_heartbeat_at": time_text(at(-9000)), "metadata": { "own": 1 },
    });
    store.insert("wh_service_instances", &row).await;
}

on_both_stores! {
    async fn a_host_is_registered_with_where_it_runs_and_since_when(store: Backend) {
        is_alive(&store, 1, 0).await;
        is_alive(&store, 1, 30).await;

        let rows = store.query("select * from wh_service_instances").await;
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((&row["service_name"], &row["host_name"]), (&json!("reprieve"), &json!("h1")));
        assert_eq!(row["process_id"], 7);
        assert_eq!((&row["started_at"], &row["last_heartbeat_at"]), (&json!(time_text(at(0))), &json!(time_text(at(30)))));
        assert!(row["metadata"].to_string().contains("g1"), "{row:?}");
    }

    async fn the_older_of_the_living_hosts_stand_before_the_younger(store: Backend) {
        assert_eq!(is_alive(&store, 2, 0).await, HostPlace { hosts: 1, before: 0 });
        assert_eq!(is_alive(&store, 5, 1).await, HostPlace { hosts: 2, before: 1 });
        assert_eq!(is_alive(&store, 3, 2).await, HostPlace { hosts: 3, before: 1 });

        store.remove_host(instance(2)).await.unwrap();

        assert_eq!(is_alive(&store, 3, 3).await, HostPlace { hosts: 2, before: 0 });
        store.remove_host(instance(2)).await.expect("it is gone already");
    }

    async fn a_host_that_is_silent_for_five_minutes_is_removed_by_the_others(store: Backend) {
        is_alive(&store, 1, 0).await;
        assert_eq!(is_alive(&store, 2, 90).await, HostPlace { hosts: 2, before: 1 });
        assert_eq!(is_alive(&store, 2, 91).await, HostPlace { hosts: 1, before: 0 }, "silent for longer than 90 seconds");
        assert_eq!(is_alive(&store, 2, 300).await, HostPlace { hosts: 1, before: 0 });
        assert_eq!(registered(&store).await, [json!(instance(1)), json!(instance(2))]);

        assert_eq!(is_alive(&store, 2, 301).await, HostPlace { hosts: 1, before: 0 });

        assert_eq!(registered(&store).await, [json!(instance(2))]);
    }

    async fn what_the_application_has_there_is_left_alone(store: Backend) {
        application(&store, 1, "shop").await;
        application(&store, 2, "").await;

        let place = is_alive(&store, 9, 0).await;
        store.remove_host(instance(1)).await.unwrap();
        store.remove_host(instance(9)).await.unwrap();

        assert_eq!(place, HostPlace { hosts: 1, before: 0 });
        assert_eq!(registered(&store).await, [json!(instance(1)), json!(instance(2))]);
        let beats = store.query("select distinct last_heartbeat_at from wh_service_instances").await;
        assert_eq!((beats.len(), &beats[0]["last_heartbeat_at"]), (1, &json!(time_text(at(-9000)))));
    }
}
