//! A host that serves.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use super::shop::Shop;
use crate::harness::Program;

/// A host that serves on a free port; killed when a test ends early.
pub struct Host {
    child: Child,
    log: Box<dyn BufRead + Send>,
    address: String,
    // Its end calls off the watchdog.
    watched: Option<Sender<()>>,
}

impl Host {
    /// Starts it and waits until it serves.
    pub fn start(shop: &Shop, arguments: &[&str]) -> Self {
        Self::start_program(shop.program(&[&["serve"], arguments].concat()))
    }

    /// The same with more of an environment, for at most a minute.
    pub fn start_program(program: Program) -> Self {
        Self::start_for(program, Duration::from_secs(60))
    }

    /// The same for a longer time.
    pub fn start_for(program: Program, most: Duration) -> Self {
        let program = program.env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0").env("REPRIEVE_LOG__FORMAT", "json");
        let (mut command, _) = program.into_command();
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let log = Box::new(BufReader::new(child.stderr.take().unwrap()));
        let watched = Some(watched(child.id(), most));
        let mut host = Self { child, log, address: String::new(), watched };
        host.address = host.told("serving")["address"].as_str().unwrap().to_owned();
        host
    }

    /// The next event of the log.
    pub fn event(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.log.read_line(&mut line).unwrap();
        let event = || serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (!line.is_empty()).then(event)
    }

    /// The next event of the log with this message.
    pub fn told(&mut self, message: &str) -> Value {
        while let Some(event) = self.event() {
            if event["message"] == message {
                return event;
            }
        }
        panic!("the log ended before {message:?}");
    }

    /// Lets it talk from now on without being listened to: one that is neither heard nor ignored stands still.
    pub fn unheard(&mut self) {
        let mut log = std::mem::replace(&mut self.log, Box::new(io::empty()));
        std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
    }

    /// How it ended, after it was told to.
    pub fn ended(&mut self) -> ExitStatus {
        let ended = self.child.wait().unwrap();
        self.watched = None;
        ended
    }

    /// Where its endpoints listen.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What `/readyz` says.
    pub fn ready(&self) -> Value {
        serde_json::from_str(&self.get("/readyz").1).unwrap()
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let (option, pid) = (format!("-{name}"), self.pid().to_string());
        assert!(Command::new("kill").args([&option, &pid]).status().unwrap().success());
    }

    /// Ends it as a power failure would.
    pub fn kill(&mut self) {
        self.watched = None;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Status and body at a path.
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Ends it as an operator does.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.told("stopped");
        self.ended()
    }
}

/// Kills a process that is still there after a time, so that a test which waits for its log fails.
fn watched(pid: u32, most: Duration) -> Sender<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    done
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
