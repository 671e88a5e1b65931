//! A compiler that has the WebAssembly target.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";

const MISSING: &str = "no compiler for WebAssembly: the policies cannot be built
  run `make bootstrap`; by hand: `rustup target add wasm32-unknown-unknown`, or on Debian and Ubuntu
  `apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22`";

/// How the policies are compiled.
pub enum Compiler {
    /// The active compiler has the target installed.
    Active { cargo: OsString, rustc: OsString },
    /// Debian's compiler builds the target's standard library from its own source.
    Debian { linker: PathBuf },
}

/// Looks for a compiler, the active one first.
///
/// # Errors
///
/// The message that says how to get one.
pub fn find() -> Result<Compiler, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if library_of(&rustc, &["--print", "target-libdir", "--target", TARGET]).is_some_and(|path| has_core(&path)) {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        return Ok(Compiler::Active { cargo, rustc });
    }
    let source = library_of(DEBIAN_RUSTC.as_ref(), &["--print", "sysroot"]);
    let has_source = source.is_some_and(|root| root.join("lib/rustlib/src/rust/library/std/Cargo.toml").exists());
    match wasm_linker() {
        Some(linker) if has_source && Path::new(DEBIAN_CARGO).exists() => Ok(Compiler::Debian { linker }),
        _ => Err(MISSING.to_owned()),
    }
}

fn library_of(rustc: &std::ffi::OsStr, arguments: &[&str]) -> Option<PathBuf> {
    let output = clean(Command::new(rustc)).args(arguments).output().ok()?;
    output.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn has_core(libraries: &Path) -> bool {
    libraries
        .read_dir()
        .is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| starts_with(&file.file_name(), "libcore-"))))
}

fn starts_with(name: &std::ffi::OsStr, start: &str) -> bool {
    name.to_string_lossy().starts_with(start)
}

/// `wasm-ld`, or the newest of the numbered ones that Debian installs.
fn wasm_linker() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let linkers = env::split_paths(&path).filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    linkers
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let version = name.strip_prefix("wasm-ld")?;
            let version = if version.is_empty() { u32::MAX } else { version.strip_prefix('-')?.parse().ok()? };
            Some((version, file.path()))
        })
        .max()
        .map(|(_, linker)| linker)
}

impl Compiler {
    /// Compiles one crate of the workspace and returns where its core module is.
    ///
    /// # Errors
    ///
    /// The compiler's own words went to stderr; the error names the crate.
    pub fn build(&self, workspace: &Path, name: &str, target: &Path) -> Result<PathBuf, String> {
        let mut command = self.cargo();
        command
            .current_dir(workspace)
            .args(["build", "--locked", "--lib", "--profile", "policy", "--target", TARGET, "--package", name])
            .arg("--target-dir")
            .arg(target);
        let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if !status.success() {
            return Err(format!("policy {name} does not compile to WebAssembly: {command:?} ended with {status}"));
        }
        Ok(target.join(TARGET).join("policy").join(name.replace('-', "_")).with_extension("wasm"))
    }

    fn cargo(&self) -> Command {
        match self {
            Self::Active { cargo, rustc } => {
                let mut command = clean(Command::new(cargo));
                command.env("RUSTC", rustc);
                command
            }
            Self::Debian { linker } => {
                let mut command = clean(Command::new(DEBIAN_CARGO));
                command
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
                    .arg("-Zbuild-std=std,panic_abort");
                command
            }
        }
    }
}

/// Takes what the outer build set for itself out of a command's environment: its flags, wrappers and coverage would
/// end up in the components. What says where crates come from stays.
fn clean(mut command: Command) -> Command {
    const KEPT: [&str; 6] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_"];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let kept = KEPT.iter().any(|kept| text.starts_with(kept));
        let ours = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "LLVM_PROFILE"].iter().any(|own| text.starts_with(own))
            || matches!(text.as_ref(), "MAKEFLAGS" | "MFLAGS" | "TARGET" | "HOST" | "PROFILE" | "OUT_DIR");
        if ours && !kept {
            command.env_remove(&name);
        }
    }
    command
}
