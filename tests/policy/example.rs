//! The example policy: it overrides one message type and passes the other questions on.

use reprieve::model::{DeadLetter, FailureReason, RecoveryStatus, StreamMode};
use reprieve::policy::{Policy, World};
use uuid::Uuid;

use super::{ENGINE, Files, ask_one, builtin, entry};

const INVENTORY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inventory.wasm"));

async fn inventory() -> Policy {
    ENGINE.load(vec![Files::new().member("inventory", INVENTORY)]).await.unwrap()
}

fn of_type(message_type: &str, reason: i32) -> DeadLetter {
    DeadLetter { message_type: message_type.to_owned(), ..entry(FailureReason(reason)) }
}

#[tokio::test]
async fn it_is_a_policy_with_a_fallback_and_needs_no_wasi() {
    let policy = inventory().await;
    assert_eq!(policy.name(), "inventory");
    let worlds: Vec<_> = policy.about().iter().map(|member| member.world).collect();
    assert_eq!(worlds, [World::PolicyWithFallback, World::ConfigurablePolicy]);
    let imports = &policy.about()[0].imports;
    assert!(imports.iter().all(|name| name.starts_with("reprieve:policy/")), "{imports:?}");
}

#[tokio::test]
async fn inventory_adjustments_get_their_own_rule_whatever_the_reason() {
    let policy = inventory().await;
    for (message_type, reason) in [("InventoryAdjusted", 8), ("Shop.InventoryAdjustment, Shop", 4)] {
        let answer = ask_one(&policy, &of_type(message_type, reason)).await.unwrap().policy;
        assert_eq!((answer.name.as_str(), answer.max_recovery_attempts), ("InventorySpecific", 5));
        assert_eq!(answer.cooldown.as_secs(), 2 * 60 * 60);
        assert!(answer.hold_for_review_after_exhaustion && !answer.delay_first_attempt);
    }
}

#[tokio::test]
async fn every_other_message_is_answered_by_the_default_matrix() {
    let (policy, matrix) = (inventory().await, ENGINE.load(vec![builtin()]).await.unwrap());
    for reason in FailureReason::named() {
        let entry = of_type("OrderPlaced", reason.0);
        let (answer, expected) = (ask_one(&policy, &entry).await, ask_one(&matrix, &entry).await);
        assert_eq!(answer.unwrap(), expected.unwrap(), "{reason}");
    }
}

#[tokio::test]
async fn it_keeps_the_order_of_a_stream_and_of_nothing_else() {
    let policy = inventory().await;
    for (stream_id, mode) in [(Some(Uuid::now_v7()), StreamMode::TailAware), (None, StreamMode::PerMessage)] {
        let entry = DeadLetter { stream_id, ..of_type("InventoryAdjusted", 8) };
        assert_eq!(ask_one(&policy, &entry).await.unwrap().stream_mode, mode);
    }
}

#[tokio::test]
async fn what_is_held_is_never_recovered() {
    let policy = inventory().await;
    for message_type in ["InventoryAdjusted", "OrderPlaced"] {
        for (recovery_status, recovers) in [(RecoveryStatus::HoldForReview, false), (RecoveryStatus::Pending, true)] {
            let entry = DeadLetter { recovery_status, ..of_type(message_type, 8) };
            assert_eq!(ask_one(&policy, &entry).await.unwrap().should_recover, recovers, "{recovery_status}");
        }
    }
}
