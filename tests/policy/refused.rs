//! Files that are no policy, and what is said about them.

use reprieve::policy::{Inspection, LoadError, MemberSource, Origin, World};

use super::guests::{POLICY, WITH_FALLBACK, component, component_of_version, core};
use super::{ENGINE, Files, builtin, load_bytes, refusal, words};

#[tokio::test]
async fn what_is_no_component_is_refused_by_what_it_is() {
    let module = wat::parse_str("(module)").unwrap();
    for (bytes, words) in [
        (&b""[..], "an empty file"),
        (b"(component)", "text"),
        (&module, "a core module"),
        (b"\x7fELF\x02\x01\x01", "compiled code"),
        (b"\0asm\x0d\0\x01", "WebAssembly of an unknown kind"),
        (b"\xff\xfe\x00\x01", "something else"),
        (b"\0asm\x0d\0\x01\0garbage", "not a valid WebAssembly component"),
    ] {
        let message = refusal(bytes).await;
        assert!(message.contains(words) && message.contains("guest.wasm"), "{message}");
    }
}

#[tokio::test]
async fn half_a_component_is_refused() {
    let whole = component(POLICY, &core("", "", ""));
    for length in [whole.len() / 4, whole.len() / 2, whole.len() - 1] {
        let message = refusal(&whole[..length]).await;
        assert!(message.contains("guest.wasm"), "{message}");
    }
}

#[tokio::test]
async fn another_version_is_refused_with_both_versions() {
    for version in ["0.2.0", "0.1.7", "1.0.0"] {
        let message = refusal(component_of_version(POLICY, &core("", "", ""), version)).await;
        assert!(message.contains(version) && message.contains("0.1.0"), "{message}");
    }
}

#[tokio::test]
async fn another_world_is_refused_with_what_it_exports() {
    let message = refusal(component(
        "reprieve:tests/stranger",
        r#"(module (func (export "answer") (result i32) (i32.const 7)))"#,
    ))
    .await;
    assert!(message.contains("of another world") && message.contains("exports answer"), "{message}");
    let message = refusal(wat::parse_str("(component)").unwrap()).await;
    assert!(message.contains("it exports nothing"), "{message}");
}

#[tokio::test]
async fn an_import_that_no_policy_gets_is_refused_by_name() {
    let imports = r#"(import "wasi:http/outgoing@0.2.0" "send" (func (param i32 i32)))"#;
    let message = refusal(component("reprieve:tests/hungry", &core(imports, "", ""))).await;
    assert!(message.contains("imports wasi:http/outgoing@0.2.0"), "{message}");
}

#[tokio::test]
async fn more_than_the_limits_at_the_start_is_refused() {
    let hungry = core("", "", "").replace(r#"(memory (export "memory") 2)"#, r#"(memory (export "memory") 65)"#);
    let message = refusal(component(POLICY, &hungry)).await;
    assert!(message.contains("does not fit: ") && message.contains("memory"), "{message}");
    let message = refusal(component(POLICY, &core("", "(table 70000 funcref)", ""))).await;
    assert!(message.contains("does not fit: ") && message.contains("table"), "{message}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_named() {
    let files = Files::new();
    let folder = files.0.path().to_path_buf();
    for (path, words) in [
        (folder.join("missing.wasm"), "No such file"),
        (folder.clone(), "no regular file"),
        ("builtin:matrix".into(), "only builtin:default-matrix"),
    ] {
        let Err(error) = ENGINE.load(vec![MemberSource::new(Origin::File(path.clone()))]).await else {
            panic!("loaded")
        };
        let message = super::words(&error);
        assert!(message.contains(words) && message.contains(&path.display().to_string()), "{message}");
    }
}

#[tokio::test]
async fn a_file_beyond_128_mib_is_refused_unread() {
    let files = Files::new();
    let member = files.member("large", b"");
    let Origin::File(path) = &member.origin else { panic!("no file") };
    std::fs::File::options().write(true).open(path).unwrap().set_len(2 << 30).unwrap();
    let Err(error) = ENGINE.load(vec![member]).await else { panic!("loaded") };
    assert!(words(&error).contains("larger than 128 MiB"));
}

#[tokio::test]
async fn a_pinned_file_is_loaded_only_with_its_digest() {
    let found = ENGINE.load(vec![builtin()]).await.unwrap().about()[0].sha256.clone();
    let pin = |sha256: String| MemberSource { sha256: Some(sha256), ..builtin() };
    assert!(ENGINE.load(vec![pin(found.to_uppercase())]).await.is_ok());
    let other = ENGINE.load(vec![pin("0".repeat(64))]).await;
    assert!(matches!(other, Err(LoadError::Pinned { .. })));
}

#[tokio::test]
async fn worlds_are_told_apart_by_imports_and_exports() {
    let policy = load_bytes(component(POLICY, &core("", "", ""))).await.unwrap();
    assert_eq!((policy.about().len(), policy.about()[0].world), (1, World::Policy));
    let passing = load_bytes(component(WITH_FALLBACK, super::guests::PASSES_ON)).await.unwrap();
    let worlds: Vec<_> = passing.about().iter().map(|member| member.world).collect();
    assert_eq!(worlds, [World::PolicyWithFallback, World::ConfigurablePolicy]);
}

#[test]
fn the_embedded_matrix_needs_no_wasi_and_names_its_tools() {
    let matrix = Inspection::of(&Origin::Builtin).unwrap();
    assert_eq!((matrix.world, matrix.version), ("configurable-policy", "0.1.0"));
    assert!(matrix.imports.iter().all(|name| name.starts_with("reprieve:policy/")), "{:?}", matrix.imports);
    assert!(matrix.producers.iter().any(|producer| producer.name == "wit-component"), "{:?}", matrix.producers);
    assert!(matrix.size < 200_000, "{}", matrix.size);
}
