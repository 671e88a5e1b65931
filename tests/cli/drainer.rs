//! The program of `examples/perspective-drainer`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::harness::{empty_database, psql};

/// The program. A run of some tests alone does not build examples, so it is built here; mostly there is nothing to do.
pub fn example() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let programs = Path::new(env!("CARGO_BIN_EXE_reprieve")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-q", "--locked", "--example", "perspective-drainer"]);
        cargo.args(programs.ends_with("release").then_some("--release"));
        cargo.arg("--target-dir").arg(programs.parent().unwrap());
        // What the cargo above set for this process would make the one below build dependencies anew.
        let of_this_run = |name: &String| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"].iter().any(|prefix| name.starts_with(prefix))
                || ["CARGO", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"].contains(&name.as_str())
        };
        for (name, _) in std::env::vars().filter(|(name, _)| of_this_run(name)) {
            cargo.env_remove(name);
        }
        let built = cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        programs.join("examples/perspective-drainer")
    })
}

fn drains(url: Option<&str>, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut example = Command::new(example());
    example
        .args(url)
        .env_clear()
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .current_dir(folder)
        .envs(variables.iter().copied());
    example.output().unwrap()
}

fn assert_told(run: &Output) {
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    let mut rest = stdout.as_ref();
    for part in [
        "8 events of three orders",
        "applied 5, failed 1, waiting behind it 2",
        "Grace             1       400",
        "claim 10: SerializationError",
        "claim 11: more than the 10",
        "Grace             3      2475",
        "gives 1 dead letter one attempt on the new build, and re-emits 1",
        "Grace             4      3725",
        "no event is missing",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} in its place in\n{stdout}"));
        rest = &rest[at..];
    }
}

#[test]
fn on_sqlite_it_tells_the_whole_story_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();

    assert_told(&drains(None, folder.path(), &[]));

    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == ".cache"), "{left:?}");
}

#[test]
fn the_cap_is_the_one_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let cap = |value| [("REPRIEVE_PERSPECTIVE__MAX_PERSPECTIVE_EVENT_ATTEMPTS", value)];

    let run = drains(None, folder.path(), &cap("3"));
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && told.contains("claim 4: more than the 3"), "{told}");

    let refused = drains(None, folder.path(), &cap("0"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("max_perspective_event_attempts"));
}

#[test]
fn on_postgres_it_tells_the_same_on_an_empty_database_only() {
    let folder = tempfile::tempdir().unwrap();
    let url = empty_database();

    assert_told(&drains(Some(&url), folder.path(), &[]));

    assert_eq!(psql(&url, "select count(*) from order_lines"), "8");
    let again = drains(Some(&url), folder.path(), &[]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("name an empty database"));
}
