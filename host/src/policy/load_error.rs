//! Why a chain was not loaded.

use std::io;
use std::path::PathBuf;

use super::failure::{FailureKind, PolicyFailure};
use super::read::{MAX_COMPONENT, MAX_SETTINGS};
use super::shape::ShapeError;
use super::source::Origin;
use crate::model::chain::MAX_CHAIN;

/// Why a chain was not loaded. Nothing has changed because of it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no member, or there are too many.
    #[error("a policy chain of {0} members, allowed are 1 to {MAX_CHAIN}")]
    Chain(usize),
    /// A file cannot be read.
    #[error("cannot read policy {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file is too large.
    #[error("policy {} is larger than {} MiB", path.display(), MAX_COMPONENT >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file of settings cannot be read.
    #[error("cannot read settings {} of policy {member}", path.display())]
    ReadSettings {
        /// The policy's name.
        member: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file of settings is too large.
    #[error("settings {} of policy {member} are larger than {} MiB", path.display(), MAX_SETTINGS >> 20)]
    LargeSettings {
        /// The policy's name.
        member: String,
        /// The file.
        path: PathBuf,
    },
    /// A file holds no settings.
    #[error("settings of policy {member}: {}: {reason}", path.display())]
    UnreadableSettings {
        /// The policy's name.
        member: String,
        /// The file.
        path: PathBuf,
        /// The SHA-256 of the file.
        sha256: String,
        /// What it is instead.
        reason: String,
    },
    /// A file is not the one that the configuration pins.
    #[error("policy {origin} has the sha256 {found}, but the configuration pins {pinned}")]
    Pinned {
        /// Where it comes from.
        origin: Origin,
        /// The digest of the file.
        found: String,
        /// The digest that was asked for.
        pinned: String,
    },
    /// A file is no policy.
    #[error("policy {origin} {reason}")]
    Shape {
        /// Where it comes from.
        origin: Origin,
        /// What it is instead.
        reason: ShapeError,
    },
    /// A component does not compile, or its functions have other types than the contract's.
    #[error("policy {origin} does not fit: {reason}")]
    Unfit {
        /// Where it comes from.
        origin: Origin,
        /// What does not fit.
        reason: String,
    },
    /// Settings that are no JSON object, or that the policy refuses.
    #[error("settings of policy {member}: {reason}")]
    Settings {
        /// The policy's name.
        member: String,
        /// What is wrong with them, in the policy's own words.
        reason: String,
    },
    /// The policy failed on a sample entry, or on the check of its settings.
    #[error("the policy failed while it was tried, {asked}")]
    Probe {
        /// What it was asked.
        asked: &'static str,
        /// How it failed.
        #[source]
        failure: PolicyFailure,
    },
    /// The system has no thread left.
    #[error("cannot start a thread to load a policy on")]
    Thread(#[source] io::Error),
    /// Compiling ended without a result.
    #[error("loading the policy ended without a result")]
    Ended,
}

impl LoadError {
    /// Where the component at fault comes from, when it is known.
    #[must_use]
    pub const fn origin(&self) -> Option<&Origin> {
        if let Self::Pinned { origin, .. } | Self::Shape { origin, .. } | Self::Unfit { origin, .. } = self {
            return Some(origin);
        }
        None
    }

    /// The name of the member whose settings or answers are at fault.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        if let Self::Settings { member, .. } | Self::Probe { failure: PolicyFailure { member, .. }, .. } = self {
            return Some(member);
        }
        None
    }

    /// The SHA-256 of the file at fault, when this names it.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        if let Self::Pinned { found: sha256, .. } | Self::UnreadableSettings { sha256, .. } = self {
            return Some(sha256);
        }
        None
    }

    /// Whether the same files may be taken another time: the machine was out of threads, descriptors or memory, or too
    /// busy for an answer in time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        if let Self::Probe { failure, .. } = self {
            return matches!(failure.kind, FailureKind::Timeout | FailureKind::Start | FailureKind::Host);
        }
        if let Self::Read { source, .. } | Self::ReadSettings { source, .. } = self {
            return is_shortage(source);
        }
        matches!(self, Self::Thread(_) | Self::Ended)
    }

    /// The whole of it on one line, with its causes.
    #[must_use]
    pub fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Whether a file could not be read for want of something that others give back.
fn is_shortage(error: &io::Error) -> bool {
    const NO_DESCRIPTOR_LEFT: [i32; 2] = [23, 24];
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy)
        || error.raw_os_error().is_some_and(|code| NO_DESCRIPTOR_LEFT.contains(&code))
}
