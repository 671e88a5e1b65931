//! `[policy]`: which policy decides.

use std::path::PathBuf;

use serde_json::Value as Json;
use toml::Value;

use super::error::{ConfigError, Origin};
use super::limits::LimitsConfig;
use super::settings::{Given, Settings};
use super::values::NONE;
use crate::model::chain::{BUILTIN_DEFAULT_MATRIX, MAX_CHAIN};
use crate::model::names::nearest_of_all;
use crate::model::settings::{SettingsFormat, SettingsSource, from_toml};

const MEMBER_KEYS: [&str; 3] = ["path", "settings", "sha256"];

/// One policy of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberConfig {
    /// A file, or [`BUILTIN_DEFAULT_MATRIX`].
    pub path: String,
    /// What the policy is configured with.
    pub settings: SettingsSource,
    /// The only content the file may have: SHA-256 in 64 lower-case hex digits.
    pub sha256: Option<String>,
}

/// Where compiled policies are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheDir {
    /// In the user's cache folder.
    Default,
    /// Nowhere.
    Off,
    /// In this folder.
    At(PathBuf),
}

/// The policy, and what it may use.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyConfig {
    /// The first one is asked first; never empty, at most [`MAX_CHAIN`].
    pub chain: Vec<MemberConfig>,
    /// Where compiled policies are kept.
    pub cache_dir: CacheDir,
    /// Threads that run policies.
    pub threads: usize,
    /// What it may use.
    pub limits: LimitsConfig,
}

impl PolicyConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        settings.only_one("policy.path", "policy.chain")?;
        // A flag names another file than the one that was pinned.
        if matches!(settings.origin("policy.path"), Some(Origin::Flag(_))) {
            settings.forget("policy.sha256");
        }
        Ok(Self {
            chain: read_chain(settings)?,
            cache_dir: read_cache_dir(settings)?,
            threads: usize::try_from(settings.count("policy.threads", 2, 1..=64)?).unwrap_or(1),
            limits: LimitsConfig::read(settings)?,
        })
    }
}

fn read_cache_dir(settings: &mut Settings) -> Result<CacheDir, ConfigError> {
    Ok(match settings.text("policy.cache_dir", None)? {
        None => CacheDir::Default,
        Some(text) if text == NONE => CacheDir::Off,
        Some(path) => CacheDir::At(PathBuf::from(path)),
    })
}

fn read_chain(settings: &mut Settings) -> Result<Vec<MemberConfig>, ConfigError> {
    let chain = settings.take("policy.chain", None, format!("1 to {MAX_CHAIN} tables"));
    let given_settings =
        settings.take("policy.settings", Some("{}".to_owned()), "a table, or the path of a file".to_owned());
    let sha256 = settings.take("policy.sha256", None, "64 hex digits".to_owned());
    let path = settings.text("policy.path", Some(BUILTIN_DEFAULT_MATRIX))?;
    if let Some(chain) = chain {
        if let Some(given) = given_settings {
            return Err(given.refused("policy.settings", "stands beside policy.chain; give each member its settings"));
        }
        if let Some(given) = sha256 {
            return Err(given.refused("policy.sha256", "stands beside policy.chain; give each member its sha256"));
        }
        return members(&chain);
    }
    Ok(vec![MemberConfig {
        path: path.unwrap_or_else(|| BUILTIN_DEFAULT_MATRIX.to_owned()),
        settings: given_settings.map(|given| settings_of(&given, "policy.settings")).transpose()?.unwrap_or_default(),
        sha256: sha256.map(|given| digest(&given, "policy.sha256")).transpose()?,
    }])
}

fn members(chain: &Given) -> Result<Vec<MemberConfig>, ConfigError> {
    let refused = || chain.refused("policy.chain", format!("is no list of 1 to {MAX_CHAIN} tables"));
    let parsed = parsed(chain);
    let members = parsed.as_array().ok_or_else(refused)?;
    if members.is_empty() || members.len() > MAX_CHAIN {
        return Err(refused());
    }
    members.iter().enumerate().map(|(at, value)| member(at, value, &chain.origin)).collect()
}

fn member(at: usize, value: &Value, origin: &Origin) -> Result<MemberConfig, ConfigError> {
    let here = |name: &str| format!("policy.chain[{at}].{name}");
    let given = |value: &Value| Given { value: value.clone(), origin: origin.clone() };
    let Some(fields) = value.as_table() else {
        return Err(given(value).refused(&format!("policy.chain[{at}]"), "is no table with a path"));
    };
    if let Some(unknown) = fields.keys().find(|key| !MEMBER_KEYS.contains(&key.as_str())) {
        let nearest = nearest_of_all(unknown, MEMBER_KEYS).map(here);
        return Err(ConfigError::UnknownKey { origin: origin.clone(), key: here(unknown), nearest });
    }
    let path = match fields.get("path").map(|path| (path, path.as_str())) {
        Some((_, Some(path))) if !path.is_empty() => path.to_owned(),
        Some((path, _)) => return Err(given(path).refused(&here("path"), "is no path")),
        None => return Err(given(value).refused(&format!("policy.chain[{at}]"), "has no path")),
    };
    let settings = fields.get("settings").map(|value| settings_of(&given(value), &here("settings"))).transpose()?;
    let sha256 = fields.get("sha256").map(|value| digest(&given(value), &here("sha256"))).transpose()?;
    Ok(MemberConfig { path, settings: settings.unwrap_or_default(), sha256 })
}

/// A table of the file; or JSON, when it comes from where there is only text.
fn parsed(given: &Given) -> Value {
    let text = given.value.as_str().filter(|_| given.is_text_only());
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| given.value.clone())
}

/// A table, or the path of a file. A variable, which holds text only, holds JSON when it begins like a JSON object.
fn settings_of(given: &Given, key: &str) -> Result<SettingsSource, ConfigError> {
    let refused = || given.refused(key, "is neither a table nor the path of a file");
    match &given.value {
        Value::String(text) if given.is_text_only() && text.trim_start().starts_with('{') => {
            let read = SettingsFormat::Json.read(text);
            read.map(|settings| SettingsSource::Given(Json::Object(settings)))
                .map_err(|problem| given.refused(key, format!("is {problem}")))
        }
        Value::String(path) if !path.trim().is_empty() => Ok(SettingsSource::File(PathBuf::from(path))),
        Value::Table(_) => Ok(SettingsSource::Given(from_toml(given.value.clone()))),
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_) => Err(refused()),
    }
}

fn digest(given: &Given, key: &str) -> Result<String, ConfigError> {
    let digest = given.value.as_str().map(str::to_ascii_lowercase);
    digest
        .filter(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .ok_or_else(|| given.refused(key, "is no SHA-256 of 64 hex digits"))
}
