//! The configuration: a TOML file, the environment and flags, in one set of values.
//!
//! A flag wins over the environment, that over the file, and that over the default. A key that nobody reads is an
//! error, and so is a value out of its range; both name the place they stand at. Paths are relative to the working
//! directory.

mod error;
mod limits;
mod perspective;
mod policy;
mod program;
mod recovery;
mod settings;
mod sources;
mod values;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use error::{ConfigError, Origin};
pub use limits::LimitsConfig;
pub use perspective::PerspectiveConfig;
pub use policy::{CacheDir, MemberConfig, PolicyConfig};
pub use program::{HttpConfig, LogConfig, LogFormat, StoreConfig};
pub use recovery::RecoveryConfig;
pub use sources::Overrides;

use settings::Settings;

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[store]`
    pub store: StoreConfig,
    /// `[recovery]`
    pub recovery: RecoveryConfig,
    /// `[policy]`
    pub policy: PolicyConfig,
    /// `[http]`
    pub http: HttpConfig,
    /// `[perspective]`
    pub perspective: PerspectiveConfig,
    /// `[log]`
    pub log: LogConfig,
}

impl Config {
    /// Reads the file (else the one that `REPRIEVE_CONFIG` names, else none), the environment and the flags.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no TOML, an unknown key or variable, a value of the wrong kind or out of range.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        overrides: Overrides,
    ) -> Result<Self, ConfigError> {
        Self::read(&mut sources::gather(file, environment, overrides)?)
    }

    fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let config = Self {
            store: StoreConfig::read(settings)?,
            recovery: RecoveryConfig::read(settings)?,
            policy: PolicyConfig::read(settings)?,
            http: HttpConfig::read(settings)?,
            perspective: PerspectiveConfig::read(settings)?,
            log: LogConfig::read(settings)?,
        };
        settings.refuse_unread()?;
        Ok(config)
    }
}

/// Where a configuration comes from, so that it can be read again while the program runs.
#[derive(Debug, Clone)]
pub struct ConfigSource {
    file: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    overrides: Overrides,
}

impl ConfigSource {
    /// This file, environment and flags.
    #[must_use]
    pub const fn new(file: Option<PathBuf>, environment: Vec<(OsString, OsString)>, overrides: Overrides) -> Self {
        Self { file, environment, overrides }
    }

    /// The file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        sources::file(self.file.as_deref(), &self.environment)
    }

    /// Whether it can be read again: a pipe gives what it holds once.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.file().is_none_or(|file| std::fs::metadata(file).map_or(true, |found| !sources::is_pipe(&found)))
    }

    /// Reads it as it is now.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn read(&self) -> Result<Config, ConfigError> {
        Config::load(self.file.as_deref(), self.environment.iter().cloned(), self.overrides.clone())
    }
}
