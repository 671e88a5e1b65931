//! Inventory adjustments get five attempts, two hours apart, and end held. Every other question goes to the next policy
//! of the chain, at its end the default matrix. What is held for review is never tried on its own.
#![cfg(target_family = "wasm")]

#[allow(missing_docs, unsafe_code, clippy::allow_attributes_without_reason, reason = "generated from the contract")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "policy-with-fallback" });
}

use bindings::exports::reprieve::policy::recovery::{DeadLetter, Guest, RecoveryPolicy, StreamRecoveryMode};
use bindings::reprieve::policy::recovery as next;
use bindings::reprieve::policy::types::RecoveryStatus;

struct Inventory;

impl Guest for Inventory {
    fn get_policy(entry: DeadLetter) -> RecoveryPolicy {
        if !entry.message_type.contains("InventoryAdjust") {
            return next::get_policy(&entry);
        }
        RecoveryPolicy {
            name: "InventorySpecific".to_owned(),
            max_recovery_attempts: 5,
            cooldown: 2 * 60 * 60 * 1000,
            hold_for_review_after_exhaustion: true,
            delay_first_attempt: false,
        }
    }

    fn get_stream_mode(entry: DeadLetter) -> StreamRecoveryMode {
        if entry.stream_id.is_some() { StreamRecoveryMode::TailAware } else { StreamRecoveryMode::PerMessage }
    }

    fn should_recover(entry: DeadLetter) -> bool {
        entry.recovery_status != RecoveryStatus::HoldForReview && next::should_recover(&entry)
    }
}

#[allow(unsafe_code, reason = "the canonical ABI's exports are generated from the contract")]
mod exported {
    use super::{Inventory, bindings};

    bindings::export!(Inventory with_types_in bindings);
}
