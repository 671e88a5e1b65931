//! The program itself, as a shell runs it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a run of the program left.
#[derive(Debug)]
pub struct Run {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// The one JSON document on standard output.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON lines on standard output.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// The same run, when it ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// A run to be: in an empty folder, with an environment of nothing but `PATH` and `HOME`.
pub struct Program {
    command: Command,
    stdin: Vec<u8>,
    folder: TempDir,
}

impl Program {
    /// With these arguments.
    pub fn new<A: AsRef<OsStr>>(arguments: &[A]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprieve"));
        command.args(arguments).env_clear().current_dir(folder.path());
        for name in ["PATH", "HOME"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        Self { command, stdin: Vec::new(), folder }
    }

    /// With one more environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// With this on standard input.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// With a file in the folder it runs in.
    pub fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self
    }

    /// In a folder that outlives it.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The command, to be spawned by a test that talks to it while it runs.
    pub fn into_command(self) -> (Command, TempDir) {
        (self.command, self.folder)
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Run {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut input = child.stdin.take().unwrap();
        let text = std::mem::take(&mut self.stdin);
        // Written aside, since a program that prints before it has read everything must not wait for us.
        let writer = std::thread::spawn(move || drop(input.write_all(&text)));
        let done = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run {
            code: done.status.code().unwrap_or(-1),
            stdout: String::from_utf8(done.stdout).unwrap(),
            stderr: String::from_utf8(done.stderr).unwrap(),
        }
    }
}

/// Runs the program with these arguments.
pub fn reprieve<A: AsRef<OsStr>>(arguments: &[A]) -> Run {
    Program::new(arguments).run()
}
