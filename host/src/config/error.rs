//! What is wrong with a configuration.

use std::fmt;
use std::path::PathBuf;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the file.
    File(PathBuf),
    /// In the environment, under this name.
    Variable(String),
    /// On the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "configuration file {}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

impl Origin {
    /// The one that wins has the higher rank.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::File(_) => 0,
            Self::Variable(_) => 1,
            Self::Flag(_) => 2,
        }
    }
}

/// Why the configuration is refused; always a usage error.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {} cannot be read: {problem}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// The file is no TOML.
    #[error("configuration file {} is no valid TOML: {problem}", file.display())]
    Syntax {
        /// Which.
        file: PathBuf,
        /// What is wrong and where.
        problem: String,
    },
    /// Nothing reads this key.
    #[error("{origin}: unknown key {key}{}", suggestion(nearest.as_ref()))]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key, with its section.
        key: String,
        /// The known key, or the variable, that was most likely meant.
        nearest: Option<String>,
    },
    /// A value is of the wrong kind or out of its range.
    #[error("{origin}: {key} = {value} {problem}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The key, with its section.
        key: String,
        /// What was given.
        value: String,
        /// What is wrong with it, and what is allowed.
        problem: String,
    },
    /// Two keys of which one can be set.
    #[error("{origin}: {one} and {other} are both set; set one of them")]
    Both {
        /// Where they stand.
        origin: Origin,
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
}

fn suggestion(nearest: Option<&String>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}
