//! What guests see of an entry and of the machine, as they tell it.

use reprieve::model::view::{MAX_ERROR_TEXT, MAX_METADATA, METADATA_TRUNCATED};
use reprieve::model::{DeadLetter, FailureReason};

use super::guests::{component, core, hostile};
use super::{ask_one, entry, load_bytes, now, of_types};

/// Answers with the length of the error text as attempts, that of the metadata as cooldown, and the name of the first
/// attribute, if there is one, as name.
const TELLS_LENGTHS: &str = "
    (i32.store (i32.const 136) (i32.load offset=84 (local.get 0)))
    (i64.store (i32.const 144) (i64.load32_u offset=164 (local.get 0)))
    (if (i32.load offset=172 (local.get 0)) (then
      (i64.store (i32.const 128) (i64.load (i32.load offset=168 (local.get 0))))))
    (return (i32.const 128))";

/// The bytes of error text and of metadata that a guest sees, and the first attribute.
async fn seen(error_text: Option<String>, metadata: String) -> (u32, u128, Option<String>) {
    let policy = load_bytes(hostile(TELLS_LENGTHS)).await.unwrap();
    let message_type = "X".to_owned();
    let entry = DeadLetter { error_text, metadata, message_type, ..entry(FailureReason::UNKNOWN) };
    let told = ask_one(&policy, &entry).await.unwrap().policy;
    (told.max_recovery_attempts, told.cooldown.as_millis(), Some(told.name).filter(|name| name != "Guest"))
}

/// A JSON object of so many bytes.
fn metadata_of(bytes: usize) -> String {
    format!("{{\"a\":\"{}\"}}", "m".repeat(bytes - 8))
}

#[tokio::test]
async fn a_guest_sees_texts_within_their_bounds_whole() {
    let (text, metadata) = ("e".repeat(MAX_ERROR_TEXT), metadata_of(MAX_METADATA));
    assert_eq!(seen(Some(text), metadata).await, (8192, 65_536, None));
    assert_eq!(seen(None, "{}".to_owned()).await.1, 2);
}

#[tokio::test]
async fn a_guest_sees_eight_kib_of_a_longer_error_text() {
    assert_eq!(seen(Some("e".repeat(MAX_ERROR_TEXT + 1)), "{}".to_owned()).await.0, 8192);
    assert_eq!(seen(Some("e".repeat(1 << 20)), "{}".to_owned()).await.0, 8192);
    // Not half a character: the host could not hand that over.
    assert_eq!(seen(Some(format!("e{}", "é".repeat(MAX_ERROR_TEXT))), "{}".to_owned()).await.0, 8191);
}

#[tokio::test]
async fn a_guest_sees_an_empty_object_and_an_attribute_in_place_of_larger_metadata() {
    for bytes in [MAX_METADATA + 1, 1 << 20] {
        let (_, metadata, attribute) = seen(None, metadata_of(bytes)).await;
        assert_eq!((metadata, attribute.as_deref()), (2, Some(METADATA_TRUNCATED)));
    }
}

#[tokio::test]
async fn a_guest_finds_no_environment_no_arguments_and_no_folder() {
    let imports = r#"
        (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
        (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
        (import "wasi:cli/environment@0.2.0" "initial-cwd" (func $folder (param i32)))"#;
    // Answers with the number of variables and arguments as attempts, and with whether there is a folder as cooldown.
    let on_x = "
        (call $environment (i32.const 1024)) (call $arguments (i32.const 1032)) (call $folder (i32.const 1040))
        (i32.store (i32.const 136) (i32.add (i32.load (i32.const 1028)) (i32.load (i32.const 1036))))
        (i64.store (i32.const 144) (i64.load8_u (i32.const 1040)))
        (return (i32.const 128))";
    assert!(std::env::vars_os().count() > 0 && std::env::args_os().count() > 0, "the host has some");
    let policy = load_bytes(component("reprieve:tests/inquirer", &core(imports, "", on_x))).await.unwrap();
    let told = policy.session(now()).ask(of_types(&["X"])).await.remove(0).unwrap().policy;
    assert_eq!((told.max_recovery_attempts, told.cooldown.as_millis()), (0, 0));
}
