//! Builds the policies of this workspace into WebAssembly components, for the host to embed.
//!
//! It installs nothing: it uses the WebAssembly target of the active compiler, else Debian's compiler, else it stops
//! and names the command that gets one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "cargo reads what a build script prints")]

#[path = "build/compiler.rs"]
mod compiler;
#[path = "build/component.rs"]
mod component;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The crates that become components, each with its folder in the workspace. `OUT_DIR/NAME.wasm` is for the host to
/// embed, `target/policies/NAME.wasm` for people.
const POLICIES: &[(&str, &str)] =
    &[("default-matrix", "policies/default-matrix"), ("inventory", "examples/policies/rust")];

/// What all of them are built from besides their own folder.
const SHARED: &[&str] = &["wit", "Cargo.toml", "Cargo.lock", "host/build", "host/build.rs"];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let host = folder("CARGO_MANIFEST_DIR")?;
    let workspace = host.parent().ok_or("the host's crate has no parent folder")?;
    let out = folder("OUT_DIR")?;
    let sources = POLICIES.iter().map(|(_, folder)| folder);
    for path in SHARED.iter().chain(sources) {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
    println!("cargo::rerun-if-env-changed=PATH");
    let compiler = compiler::find()?;
    let target = shared_target(&out);
    for (name, _) in POLICIES {
        let core = compiler.build(workspace, name, &target)?;
        let embedded = out.join(name).with_extension("wasm");
        component::write(&core, &embedded)?;
        let shown = target.join(name).with_extension("wasm");
        component::show(&embedded, &shown)?;
        // One that is gone is made again.
        println!("cargo::rerun-if-changed={}", shown.display());
    }
    Ok(())
}

fn folder(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("{variable} is not set; run this through cargo"))
}

/// A target folder for the policies beside those of the profiles, so that debug and release builds of the host share
/// what takes long, and neither waits for the lock that the outer cargo holds.
fn shared_target(out: &Path) -> PathBuf {
    let outer = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap_or(out);
    outer.join("policies")
}
