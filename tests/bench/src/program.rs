//! The program as a process of its own: this executable, which is the program when its first argument says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uuid::Uuid;

/// As the first argument: the rest are the program's.
pub const PROGRAM: &str = "reprieve";

/// The program, and then the most memory that its process had.
pub async fn run() {
    let arguments = std::env::args_os().skip(1);
    let code = reprieve::cli::run(arguments).await;
    eprintln!("{} kB {code:?}", most_kilobytes("self"));
}

/// The most resident memory that a process has had.
pub fn most_kilobytes(process: &str) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    most.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The program with its arguments, in a folder, on a store. It keeps what it compiled in that folder.
pub fn command(folder: &Path, url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(PROGRAM).args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("REPRIEVE_STORE", url).env("REPRIEVE_POLICY__CACHE_DIR", folder.join("compiled"));
    command.env("REPRIEVE_LOG__LEVEL", "warn");
    command
}

/// A folder that is removed in the end.
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("reprieve-bench-{}", Uuid::now_v7().simple()));
        std::fs::create_dir(&path).unwrap();
        Self { path }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is somebody else's to remove.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
