//! The commands of the README do what it says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::shop::Shop;

const README: &str = include_str!("../../README.md");
const INVENTORY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inventory.wasm"));

/// The code blocks of one language in a section.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let (_, rest) = README.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    let start = format!("```{language}\n");
    section.split(&start).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// A folder that looks like a checkout once built: the program, the examples and a Makefile that makes the policies.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    let programs = folder.path().join("target/debug");
    fs::create_dir_all(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_reprieve"), programs.join("reprieve")).unwrap();
    fs::write(folder.path().join("inventory.wasm"), INVENTORY).unwrap();
    let made = "policies:\n\tmkdir target/policies\n\tcp inventory.wasm target/policies/\n";
    fs::write(folder.path().join("Makefile"), made).unwrap();
    folder
}

#[test]
fn every_command_of_the_first_sections_runs_as_it_stands() {
    let folder = checkout();
    let commands = [blocks("Try it by hand", "sh"), blocks("A first policy of your own", "sh")].concat();
    assert_eq!(commands.len(), 3);
    // What it leaves elsewhere would outlive the test.
    let script = commands.concat().replace("/tmp/", &format!("{}/", folder.path().display()));

    let mut command = Command::new("sh");
    command.args(["-e", "-u", "-c", &script]).current_dir(folder.path()).env_clear().stdin(Stdio::null());
    command.envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let run = command.output().unwrap();

    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    let first = stdout.find(r#""decision":"permanently-fail""#).expect("the first eval");
    let second = stdout.find(r#""decision":"recover""#).expect("the second eval");
    assert!(first < second && stdout.contains("inventory is a policy"), "{stdout}");
}

#[test]
fn the_configuration_that_it_shows_is_one_with_settings_that_the_policy_takes() {
    let [shown] = &blocks("A first policy of your own", "toml")[..] else { panic!("one configuration is shown") };
    let shop = Shop::new();
    fs::write(shop.path().join("reprieve.toml"), shown).unwrap();
    shop.run(&["scan", "--config", "reprieve.toml"]).exits(0);
}
