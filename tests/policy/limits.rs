//! What a component may consist of.

use reprieve::policy::Limits;

use super::guests::{POLICY, component, core};
use super::large_guests::with_core_instances;
use super::{load_bytes, refusal};

/// A guest that has so many instances of a core module beside its own.
fn with(module: &str, count: usize) -> Vec<u8> {
    with_core_instances(component(POLICY, &core("", "", "")), module, u32::try_from(count).unwrap())
}

/// The guest's own module is one of those that are counted, where it has any of what is counted.
async fn up_to(module: &str, allowed: usize, own: usize, words: &str) {
    load_bytes(with(module, allowed - own)).await.unwrap();
    for more in [1, 10] {
        let message = refusal(with(module, allowed - own + more)).await;
        assert!(message.contains("does not fit: ") && message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn more_core_instances_than_the_limit_are_refused() {
    up_to("(module)", Limits::default().instances, 1, "core module instances").await;
}

#[tokio::test]
async fn more_memories_than_the_limit_are_refused() {
    up_to("(module (memory 1))", Limits::default().memories, 1, "memories").await;
}

#[tokio::test]
async fn more_tables_than_the_limit_are_refused() {
    up_to("(module (table 1 funcref))", Limits::default().tables, 0, "tables").await;
}
