//! `[store]`, `[http]` and `[log]`.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use super::error::ConfigError;
use super::settings::Settings;

/// Where the dead letters are.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// `sqlite://path` or `postgres://…`; may hold a password.
    pub url: String,
}

impl fmt::Debug for StoreConfig {
    /// Leaves the URL out, since it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig").finish_non_exhaustive()
    }
}

impl StoreConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        const DEFAULT: &str = "sqlite://reprieve.db";
        let url = settings.text("store.url", Some(DEFAULT))?;
        Ok(Self { url: url.unwrap_or_else(|| DEFAULT.to_owned()) })
    }
}

/// The endpoints for health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where they listen; port 0 takes a free one.
    pub listen: SocketAddr,
}

impl HttpConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 9780));
        let shown = Some(format!("\"{default}\""));
        let Some(given) = settings.take("http.listen", shown, "an IP address and a port".to_owned()) else {
            return Ok(Self { listen: default });
        };
        let listen = given.value.as_str().and_then(|text| text.parse().ok());
        listen.map(|listen| Self { listen }).ok_or_else(|| {
            given.refused("http.listen", "is no IP address with a port, such as \"127.0.0.1:9780\" or \"[::1]:9780\"")
        })
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// How its lines look.
    pub format: LogFormat,
    /// A level, or a comma-separated list of `target=level`; whether it is understood shows when the log starts.
    /// `None` when nothing was set: `info` for `serve`, and for a command that ends by itself `warn`.
    pub level: Option<String>,
}

impl LogConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let level_is_set = settings.origin("log.level").is_some();
        Ok(Self {
            format: settings.word(
                "log.format",
                "text",
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
                LogFormat::Text,
            )?,
            level: settings.text("log.level", Some("info"))?.filter(|_| level_is_set),
        })
    }
}
