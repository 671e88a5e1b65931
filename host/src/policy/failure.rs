//! A policy that did not answer.

use std::fmt;

use wasmtime::Trap;

use super::usage::LimitReached;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The guest trapped.
    Trap,
    /// It did not answer in time.
    Timeout,
    /// It wanted more memory or a larger table than allowed.
    OutOfMemory,
    /// Its answer, or what it passed to the host, makes no sense.
    InvalidAnswer,
    /// It could not be instantiated.
    Start,
    /// The host's own thread failed.
    Host,
}

impl FailureKind {
    /// The name in metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out-of-memory",
            Self::InvalidAnswer => "invalid-answer",
            Self::Start => "start",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why there is no answer for an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {member} failed ({kind}): {message}")]
pub struct PolicyFailure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The member of the chain that failed.
    pub member: String,
    /// What happened, on one line.
    pub message: String,
}

/// Tells what a call's error was: its kind and its words.
pub fn classified(error: &wasmtime::Error) -> (FailureKind, String) {
    if let Some(limit) = error.downcast_ref::<LimitReached>() {
        return (FailureKind::OutOfMemory, limit.to_string());
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => (FailureKind::Timeout, "ran out of time".to_owned()),
        Some(trap) => (FailureKind::Trap, trap.to_string()),
        None => (FailureKind::InvalidAnswer, one_line(error)),
    }
}

/// The whole chain of causes without the guest's stack, which would be another line for each frame.
pub fn one_line(error: &wasmtime::Error) -> String {
    let mut words = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !cause.starts_with("error while executing at wasm backtrace") && !words.contains(&cause) {
            words.push(cause);
        }
    }
    words.join(": ").split_whitespace().collect::<Vec<_>>().join(" ")
}
