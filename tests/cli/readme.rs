//! The commands of the README do what it says.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::shop::Shop;
use crate::policy::DEFAULT_MATRIX;

const README: &str = include_str!("../../README.md");
const WRITING: &str = include_str!("../../docs/writing-policies.md");
const RUNNING: &str = include_str!("../../docs/running.md");
const INVENTORY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inventory.wasm"));

/// The code blocks of one language in a section.
fn blocks(document: &str, section: &str, language: &str) -> Vec<String> {
    let (_, rest) = document.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    let start = format!("```{language}\n");
    section.split(&start).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// A cargo that knows one command: it runs the example that was built already.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "run -q --locked --example" ] || exit 64
example=$5; shift 5; [ "${1:-}" = -- ] && shift
exec "$EXAMPLES/$example" "$@"
"#;

/// A folder that looks like a checkout once built: the program, the examples and a Makefile that makes the policies.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    let programs = folder.path().join("target/debug");
    fs::create_dir_all(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_reprieve"), programs.join("reprieve")).unwrap();
    fs::write(folder.path().join("inventory.wasm"), INVENTORY).unwrap();
    fs::write(folder.path().join("default-matrix.wasm"), DEFAULT_MATRIX).unwrap();
    let made = "policies:\n\tmkdir target/policies\n\tcp *.wasm target/policies/\n";
    fs::write(folder.path().join("Makefile"), made).unwrap();
    folder
}

/// A script that leaves nothing elsewhere, where it would outlive the test.
fn inside(script: &str, folder: &Path) -> String {
    script.replace("/tmp/", &format!("{}/", folder.display()))
}

/// Runs a script as a newcomer would, from the top of the checkout; what it printed.
fn run(script: &str, folder: &Path) -> String {
    let mut command = Command::new("sh");
    command.args(["-e", "-u", "-c", script]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let run = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn every_command_of_the_first_sections_runs_as_it_stands() {
    let folder = checkout();
    let commands =
        [blocks(README, "Try it by hand", "sh"), blocks(README, "A first policy of your own", "sh")].concat();
    assert_eq!(commands.len(), 3);
    let script = inside(&commands.concat(), folder.path());

    let stdout = run(&script, folder.path());

    let first = stdout.find(r#""decision":"permanently-fail""#).expect("the first eval");
    let second = stdout.find(r#""decision":"recover""#).expect("the second eval");
    assert!(first < second && stdout.contains("refunds is a policy"), "{stdout}");
}

#[test]
fn the_command_of_the_drainer_runs_as_it_stands() {
    let [command] = &blocks(README, "Feed read models", "sh")[..] else { panic!("one command is shown") };
    let folder = tempfile::tempdir().unwrap();
    let cargo = folder.path().join("cargo");
    fs::write(&cargo, CARGO).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let examples = super::drainer::example().parent().unwrap();

    let mut shell = Command::new("sh");
    shell.args(["-e", "-u", "-c", command]).current_dir(folder.path()).env_clear().stdin(Stdio::null());
    shell.env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()));
    shell.env("EXAMPLES", examples).env("HOME", folder.path()).env("TMPDIR", folder.path());
    let run = shell.output().unwrap();

    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && stdout.contains("no event is missing"), "{stdout}\n{stderr}");
}

#[test]
fn the_configuration_that_it_shows_is_one_with_settings_that_the_policy_takes() {
    let [shown] = &blocks(README, "A first policy of your own", "toml")[..] else {
        panic!("one configuration is shown")
    };
    let shop = Shop::new();
    fs::write(shop.path().join("reprieve.toml"), shown).unwrap();
    shop.run(&["scan", "--config", "reprieve.toml"]).exits(0);
}

#[test]
fn a_policy_is_replaced_as_the_guide_says() {
    let folder = checkout();
    let [commands] = &blocks(RUNNING, "Replacing a policy", "sh")[..] else { panic!("one script is shown") };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let script = inside(commands, folder.path()).replace("127.0.0.1:9790", &free);

    // Whatever fails, the host that it starts in the background ends with it.
    let guarded = format!("trap 'kill $! 2>/dev/null' EXIT; make -s policies; PATH=$PWD/target/debug:$PATH; {script}");
    let stdout = run(&format!("timeout 120 sh -e -u -c '{}'", guarded.replace('\'', "'\\''")), folder.path());

    assert!(stdout.contains("rules (asked first)") && stdout.contains("not a WebAssembly component"), "{stdout}");
}

#[test]
fn the_guide_to_policies_shows_commands_that_run_and_cases_that_pass() {
    let folder = checkout();
    let commands = blocks(WRITING, "From nothing to a policy that decides", "sh");
    assert_eq!(commands.len(), 2);
    let script = inside(&commands.concat(), folder.path());
    run(&format!("PATH=$PWD/target/debug:$PATH; {script}"), folder.path());
    let cases = blocks(WRITING, "Case tables", "toml");
    assert_eq!(cases.len(), 2);
    fs::write(folder.path().join("cases.toml"), cases.concat()).unwrap();
    let tested = run("target/debug/reprieve policy test builtin:default-matrix cases.toml", folder.path());
    assert!(tested.contains("2 cases: 2 passed"), "{tested}");
}
