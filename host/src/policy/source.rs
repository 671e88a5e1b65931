//! Where the members of a chain come from.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::model::chain::BUILTIN_DEFAULT_MATRIX;
use crate::model::settings::SettingsSource;

const DEFAULT_MATRIX: &str = "default-matrix";

/// Where a component comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The default matrix, embedded in the host.
    Builtin,
    /// A file.
    File(PathBuf),
}

impl Origin {
    /// The policy's name: the file's without its ending, or `default-matrix`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Builtin => DEFAULT_MATRIX.to_owned(),
            Self::File(path) => {
                path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
            }
        }
    }

    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Builtin => None,
            Self::File(path) => Some(path),
        }
    }
}

impl FromStr for Origin {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == BUILTIN_DEFAULT_MATRIX { Self::Builtin } else { Self::File(PathBuf::from(text)) })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str(BUILTIN_DEFAULT_MATRIX),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// One member of a chain, as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberSource {
    /// Where its component is.
    pub origin: Origin,
    /// What it is configured with.
    pub settings: SettingsSource,
    /// The SHA-256 that the component must have, as hex digits.
    pub sha256: Option<String>,
}

impl MemberSource {
    /// A member without settings or pin.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        Self { origin, settings: SettingsSource::default(), sha256: None }
    }

    /// The files that a change of this member shows in.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let settings = match &self.settings {
            SettingsSource::Given(_) => None,
            SettingsSource::File(path) => Some(path.as_path()),
        };
        self.origin.file().into_iter().chain(settings)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_builtin_is_told_from_a_file_and_each_has_its_name() {
        let builtin: Origin = "builtin:default-matrix".parse().unwrap();
        assert_eq!((builtin.name().as_str(), builtin.to_string().as_str()), ("default-matrix", BUILTIN_DEFAULT_MATRIX));
        let file: Origin = "policies/inventory.v2.wasm".parse().unwrap();
        assert_eq!(file.name(), "inventory.v2");
    }
}
