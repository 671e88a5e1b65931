//! `policy new`, `policy bindings` and `policy componentize`: from nothing to a policy that passes its tests.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Program, Run};
use crate::policy::example::Language;
use crate::policy::guests::{POLICY, component, core, core_module};

impl Language {
    const fn option(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::C => "c",
        }
    }
}

fn new(folder: &Path, arguments: &[&str]) -> Run {
    Program::new(&[&["policy", "new"], arguments].concat()).folder(folder).run()
}

/// Runs make in a project as a newcomer would, but with the language's tools that the examples have fetched.
fn make(project: &Path, target: &str) -> Output {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/policies");
    let mut make = Command::new("make");
    make.arg("-C").arg(project).arg(target).env_clear();
    make.envs(["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"].iter().filter_map(|n| Some((n, std::env::var_os(n)?))));
    make.env("REPRIEVE", env!("CARGO_BIN_EXE_reprieve"));
    make.env("COMPONENTIZE_PY", examples.join("python/.tools/bin/componentize-py"));
    make.env("COMPONENTIZE_QJS", examples.join("javascript/node_modules/.bin/componentize-qjs"));
    // The crates that the guest needs were fetched with those of the program. Where it has to build the target's standard
    // library, that is built once for all runs.
    make.env("CARGO_NET_OFFLINE", "true");
    make.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-policies"));
    make.output().unwrap()
}

fn make_test(project: &Path) -> String {
    let run = make(project, "test");
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Makes a project and tests it as it is.
fn from_nothing_to_a_tested_policy(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    new(folder.path(), &["My_Refunds-1", "--lang", language.option()]).exits(0);
    let project = folder.path().join("My_Refunds-1");
    let tested = make_test(&project);
    assert!(tested.contains("cases:") && tested.contains(" 0 failed"), "{tested}");

    let check = Program::new(&["policy", "check", "My_Refunds-1.wasm", "--json"]);
    let checked = check.folder(&project).run().exits(0).json();
    assert_eq!(checked["members"][0]["world"], "policy-with-fallback");
    let imports = checked["imports"].as_array().unwrap();
    assert!(imports.iter().all(|name| name.as_str().unwrap().starts_with("reprieve:policy/")), "{imports:?}");
}

#[test]
fn a_new_policy_in_rust_builds_and_passes_its_tests_as_it_is() {
    from_nothing_to_a_tested_policy(Language::Rust);
}

#[test]
fn a_new_policy_in_python_builds_and_passes_its_tests_as_it_is() {
    from_nothing_to_a_tested_policy(Language::Python);
}

#[test]
fn a_new_policy_in_javascript_builds_and_passes_its_tests_as_it_is() {
    from_nothing_to_a_tested_policy(Language::JavaScript);
}

#[test]
fn a_new_policy_in_c_builds_and_passes_its_tests_as_it_is() {
    from_nothing_to_a_tested_policy(Language::C);
}

#[test]
fn each_single_change_of_a_policy_fails_its_own_table() {
    let folder = tempfile::tempdir().unwrap();
    new(folder.path(), &["refunds", "--lang", "c"]).exits(0);
    let project = folder.path().join("refunds");
    make_test(&project);
    let source = fs::read_to_string(project.join("policy.c")).unwrap();
    let changes = [
        ("\"InventoryAdjust\"", "\"InventoryAdjustment\""),
        ("\"InventorySpecific\"", "\"InventoryOther\""),
        ("max_recovery_attempts = 5", "max_recovery_attempts = 6"),
        ("max_recovery_attempts = 5", "max_recovery_attempts = 4"),
        ("TWO_HOURS = 2 *", "TWO_HOURS = 3 *"),
        ("hold_for_review_after_exhaustion = true", "hold_for_review_after_exhaustion = false"),
        ("delay_first_attempt = false", "delay_first_attempt = true"),
        ("return has_stream ?", "return !has_stream ?"),
        ("!is_held &&", "is_held &&"),
    ];
    for (original, changed) in changes {
        assert_eq!(source.matches(original).count(), 1, "{original}");
        fs::write(project.join("policy.c"), source.replace(original, changed)).unwrap();
        let made = make(&project, "refunds.wasm");
        assert!(made.status.success(), "{made:?}");
        Program::new(&["policy", "test", "refunds.wasm", "cases.toml"]).folder(&project).run().exits(1);
    }
}

#[test]
fn a_project_says_what_it_is_and_how_to_go_on_and_names_itself_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    for language in Language::ALL {
        let name = format!("refunds-{}", language.option());
        let made = new(folder.path(), &[&name, "--lang", language.option(), "--json"]).exits(0).json();
        assert_eq!(made["name"], name.as_str());
        for file in made["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()) {
            let content = fs::read_to_string(folder.path().join(&name).join(file)).unwrap();
            let own = !matches!(file, "cases.toml" | "wit/policy.wit" | "src/lib.rs")
                && !file.starts_with("policy.")
                && file != ".gitignore";
            assert!(!own || !content.contains("inventory"), "{file}: {content}");
            assert!(file != "README.md" || content.contains(&name) && content.contains("make test"), "{content}");
        }
    }
    let told = new(folder.path(), &["other", "--lang", "c"]).exits(0).stdout;
    assert!(told.contains("make -C other test") && told.contains("clang"), "{told}");
}

#[test]
fn a_name_is_taken_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["r", "my_policy", "MyPolicy", "Refunds-2_b", &"R".repeat(64)] {
        let made = new(folder.path(), &[name, "--lang", "rust", "--json"]).exits(0).json();
        assert_eq!(made["name"], name);
        let manifest = fs::read_to_string(folder.path().join(name).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{manifest}");
    }
}

#[test]
fn a_project_is_not_made_under_a_name_that_is_none_or_over_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["1st", "re funds", "..", "-x", "_refunds", "refunds.1", "réfunds", &"r".repeat(65)] {
        let run = new(folder.path(), &["--lang", "rust", "--", name]).exits(2);
        assert!(run.stderr.contains("is no name for a policy") && run.stderr.contains("- and _"), "{}", run.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    fs::create_dir(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join("mine/policy.py"), "mine").unwrap();
    fs::write(folder.path().join("file"), "mine").unwrap();
    let taken = new(folder.path(), &["mine", "--lang", "python"]).exits(2).stderr;
    assert!(taken.contains("folder mine is not empty: choose another name"), "{taken}");
    assert_eq!(fs::read_to_string(folder.path().join("mine/policy.py")).unwrap(), "mine");
    let taken = new(folder.path(), &["file", "--lang", "python"]).exits(2).stderr;
    assert!(taken.contains("cannot use file as the project's folder"), "{taken}");
}

#[test]
fn a_language_or_world_that_is_not_known_is_told_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let told = new(folder.path(), &["refunds", "--lang", "cobol"]).exits(2).stderr;
    assert!(told.contains("cobol") && told.contains("rust, python, javascript, c"), "{told}");
    let told = Program::new(&["policy", "bindings", "--lang", "c", "--world", "other"]).run().exits(2).stderr;
    assert!(told.contains("other") && told.contains("policy-with-fallback"), "{told}");
}

#[test]
fn bindings_for_c_are_written_for_each_world() {
    let folder = tempfile::tempdir().unwrap();
    for (world, file) in [
        ("policy", "policy"),
        ("policy-with-fallback", "policy_with_fallback"),
        ("configurable-policy", "configurable_policy"),
    ] {
        let arguments = ["policy", "bindings", "--lang", "c", "--world", world, "--output", "gen", "--json"];
        let written = Program::new(&arguments).folder(folder.path()).run().exits(0).json();
        assert_eq!(written["world"], world);
        let expected = [".c", ".h", "_component_type.o"].map(|end| Value::from(format!("gen/{file}{end}")));
        assert_eq!(written["files"].as_array().unwrap(), &expected);
        let header = fs::read_to_string(folder.path().join(format!("gen/{file}.h"))).unwrap();
        assert!(header.contains("exports_reprieve_policy_recovery_get_policy"), "{header}");
    }
}

/// A core module that is a policy.
fn module() -> Vec<u8> {
    core_module(POLICY, &core("", "", ""), "0.1.0")
}

fn componentize(name: &str, content: impl AsRef<[u8]>) -> Run {
    Program::new(&["policy", "componentize", name, "-o", "out.wasm"]).file(name, content).run()
}

#[test]
fn what_becomes_no_policy_is_refused_with_the_reason_and_nothing_is_written() {
    let empty = wat::parse_str("(module)").unwrap();
    let wasi = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))"#;
    let wasi = wat::parse_str(wasi).unwrap();
    let invalid = b"\0asm\x01\0\0\0\x01\x7f".to_vec();
    let component = component(POLICY, &core("", "", ""));
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("empty", Vec::new(), "empty is no WebAssembly core module: it is an empty file"),
        ("text", b"(module)".to_vec(), "text is no WebAssembly core module: it is text"),
        ("cut", invalid, "cut is no WebAssembly core module"),
        ("component", component, "component is a component already"),
        ("plain", empty, "was the object file of its bindings linked?"),
        ("wasi", wasi, "wasi_snapshot_preview1"),
    ];
    for (name, content, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), content).unwrap();
        let arguments = ["policy", "componentize", name, "-o", "out.wasm"];
        let run = Program::new(&arguments).folder(folder.path()).run().exits(2);
        assert!(run.stderr.contains(expected), "{name}: {}", run.stderr);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
    }
    let missing = Program::new(&["policy", "componentize", "gone.wasm", "-o", "out.wasm"]).run().exits(2).stderr;
    assert!(missing.contains("cannot read core module gone.wasm"), "{missing}");
    let folder = Program::new(&["policy", "componentize", ".", "-o", "out.wasm"]).run().exits(2).stderr;
    assert!(folder.contains("no regular file"), "{folder}");
}

#[test]
fn a_core_module_with_a_byte_changed_anywhere_is_refused_or_made_and_never_ends_in_a_panic() {
    let module = module();
    let step = (module.len() / 60).max(1);
    for place in (0..module.len()).step_by(step) {
        let mut changed = module.clone();
        changed[place] ^= 0x55;
        let run = componentize("core.wasm", changed);
        assert!(matches!(run.code, 0 | 2) && !run.stderr.contains("panicked"), "byte {place}: {run:?}");
    }
}

#[test]
fn a_component_that_cannot_be_written_is_told_with_its_place() {
    let run = Program::new(&["policy", "componentize", "core.wasm", "-o", "no/such/folder/out.wasm"]);
    let told = run.file("core.wasm", module()).run().exits(2).stderr;
    assert!(told.contains("cannot write no/such/folder/out.wasm"), "{told}");
}

#[test]
fn a_component_replaces_a_file_where_its_link_leads_and_nothing_that_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |output: &str| {
        fs::write(folder.path().join("core.wasm"), module()).unwrap();
        Program::new(&["policy", "componentize", "core.wasm", "-o", output]).folder(folder.path()).run()
    };
    fs::write(folder.path().join("real.wasm"), "old").unwrap();
    std::os::unix::fs::symlink("real.wasm", folder.path().join("link.wasm")).unwrap();
    write("link.wasm").exits(0);
    assert!(fs::symlink_metadata(folder.path().join("link.wasm")).unwrap().is_symlink());
    assert!(fs::read(folder.path().join("real.wasm")).unwrap().starts_with(b"\0asm\x0d"));

    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for output in ["pipe", "."] {
        let told = write(output).exits(2).stderr;
        assert!(told.contains(&format!("cannot write {output}: it is there and is no regular file")), "{told}");
    }
    assert!(!fs::metadata(&pipe).unwrap().is_file(), "it is a pipe still");
    let told = write("core.wasm").exits(2).stderr;
    assert!(told.contains("core.wasm is the core module itself"), "{told}");
    assert_eq!(fs::read(folder.path().join("core.wasm")).unwrap(), module());
}

#[test]
fn a_project_that_cannot_be_written_whole_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    // A file stands where a folder of the path would be.
    fs::write(folder.path().join("file"), "mine").unwrap();
    new(folder.path(), &["file/refunds", "--lang", "c"]).exits(2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
