//! PostgreSQL's own client, as an application's operator would use it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::server::Server;

/// A client of one database.
pub struct Psql {
    url: String,
}

impl Psql {
    /// A client for a URL.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    /// What the statements print, without headers, columns parted by `|`.
    pub fn run(&self, sql: &str) -> String {
        self.try_run(sql).unwrap_or_else(|error| panic!("psql refused {sql}: {error}"))
    }

    /// The same, or what the server said instead.
    pub fn try_run(&self, sql: &str) -> Result<String, String> {
        run_psql(&Server::shared().bin, &self.url, sql)
    }

    /// What the server says to a statement that it must refuse.
    pub fn refuses(&self, sql: &str) -> String {
        match self.try_run(sql) {
            Ok(printed) => panic!("psql took {sql} and printed {printed}"),
            Err(error) => error,
        }
    }
}

/// What statements print on the database of this URL.
pub fn psql(url: &str, sql: &str) -> String {
    Psql::new(url).run(sql)
}

/// Runs the client. Statements go in by standard input, so that each is a transaction unless they say otherwise.
pub fn run_psql(bin: &Path, url: &str, sql: &str) -> Result<String, String> {
    use std::io::Write;
    let mut client = Command::new(bin.join("psql"))
        .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", url])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    // A client that could not connect has closed its input; its error says more than ours.
    let _ = client.stdin.take().map(|mut input| input.write_all(sql.as_bytes()));
    let done = client.wait_with_output().map_err(|error| error.to_string())?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}
