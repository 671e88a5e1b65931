//! The example policy in each language: it overrides one message type and passes the other questions on.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use reprieve::model::{DeadLetter, FailureReason, RecoveryStatus, StreamMode};
use reprieve::policy::{EngineOptions, MemberSource, Origin, Policy, PolicyEngine, World};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{ask_one, entry};

/// The component that the build made of an example.
pub fn built(name: &str) -> PathBuf {
    let built = Path::new(env!("OUT_DIR"));
    let target = built.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap();
    let file = target.join("policies").join(name).with_extension("wasm");
    assert!(file.exists(), "{} is missing: run `make languages`", file.display());
    file
}

/// The languages that the example is written in.
#[derive(Debug, Clone, Copy)]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    C,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::JavaScript, Self::C];

    /// The component that the build made.
    pub fn component(self) -> PathBuf {
        built(match self {
            Self::Rust => "inventory",
            Self::Python => "inventory-python",
            Self::JavaScript => "inventory-javascript",
            Self::C => "inventory-c",
        })
    }

    /// The policy under the default limits, compiled once.
    async fn policy(self) -> Policy {
        static ENGINE: LazyLock<PolicyEngine> = LazyLock::new(|| {
            let cache_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
            PolicyEngine::new(EngineOptions { cache_dir: Some(cache_dir), ..EngineOptions::default() }).unwrap()
        });
        static LOADED: [OnceCell<Policy>; Language::ALL.len()] = [const { OnceCell::const_new() }; Language::ALL.len()];
        let load = async || ENGINE.load(vec![MemberSource::new(Origin::File(self.component()))]).await.unwrap();
        LOADED[self as usize].get_or_init(load).await.clone()
    }
}

/// The default matrix, in the same engine.
async fn matrix() -> Policy {
    super::ENGINE.load(vec![super::builtin()]).await.unwrap()
}

/// Runs one test body for each language.
macro_rules! in_each_language {
    ($( async fn $name:ident($language:ident: Language) $body:block )+) => { $(
        async fn $name($language: Language) $body

        mod $name {
            use super::Language;

            #[tokio::test]
            async fn in_rust() {
                super::$name(Language::Rust).await;
            }

            #[tokio::test]
            async fn in_python() {
                super::$name(Language::Python).await;
            }

            #[tokio::test]
            async fn in_javascript() {
                super::$name(Language::JavaScript).await;
            }

            #[tokio::test]
            async fn in_c() {
                super::$name(Language::C).await;
            }
        }
    )+ };
}

fn of_type(message_type: &str, reason: i32) -> DeadLetter {
    DeadLetter { message_type: message_type.to_owned(), ..entry(FailureReason(reason)) }
}

in_each_language! {
    async fn it_is_a_policy_with_a_fallback_and_needs_no_wasi(language: Language) {
        let policy = language.policy().await;
        assert!(policy.name().starts_with("inventory"));
        let worlds: Vec<_> = policy.about().iter().map(|member| member.world).collect();
        assert_eq!(worlds, [World::PolicyWithFallback, World::ConfigurablePolicy]);
        let imports = &policy.about()[0].imports;
        assert!(imports.iter().all(|name| name.starts_with("reprieve:policy/")), "{imports:?}");
    }

    async fn inventory_adjustments_get_their_own_rule_whatever_the_reason(language: Language) {
        let policy = language.policy().await;
        for (message_type, reason) in [("InventoryAdjusted", 8), ("Shop.InventoryAdjustment, Shop", 4)] {
            let answer = ask_one(&policy, &of_type(message_type, reason)).await.unwrap().policy;
            assert_eq!((answer.name.as_str(), answer.max_recovery_attempts), ("InventorySpecific", 5));
            assert_eq!(answer.cooldown.as_secs(), 2 * 60 * 60);
            assert!(answer.hold_for_review_after_exhaustion && !answer.delay_first_attempt);
        }
    }

    async fn every_other_message_is_answered_by_the_default_matrix(language: Language) {
        let (policy, matrix) = (language.policy().await, matrix().await);
        for reason in FailureReason::named() {
            let entry = of_type("OrderPlaced", reason.0);
            let (answer, expected) = (ask_one(&policy, &entry).await, ask_one(&matrix, &entry).await);
            assert_eq!(answer.unwrap(), expected.unwrap(), "{reason}");
        }
    }

    async fn it_keeps_the_order_of_a_stream_and_of_nothing_else(language: Language) {
        let policy = language.policy().await;
        for (stream_id, mode) in [(Some(Uuid::now_v7()), StreamMode::TailAware), (None, StreamMode::PerMessage)] {
            let entry = DeadLetter { stream_id, ..of_type("InventoryAdjusted", 8) };
            assert_eq!(ask_one(&policy, &entry).await.unwrap().stream_mode, mode);
        }
    }

    async fn what_is_held_is_never_recovered(language: Language) {
        let policy = language.policy().await;
        for message_type in ["InventoryAdjusted", "OrderPlaced"] {
            for (recovery_status, recovers) in [(RecoveryStatus::HoldForReview, false), (RecoveryStatus::Pending, true)] {
                let entry = DeadLetter { recovery_status, ..of_type(message_type, 8) };
                assert_eq!(ask_one(&policy, &entry).await.unwrap().should_recover, recovers, "{recovery_status}");
            }
        }
    }
}
