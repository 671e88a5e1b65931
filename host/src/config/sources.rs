//! Where values come from.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{ConfigError, Origin};
use super::settings::Settings;
use crate::model::settings::toml_problem;

/// The largest file that is read.
const MAX_FILE: u64 = 16 << 20;
const PREFIX: &str = "REPRIEVE_";
const CONFIG_VARIABLE: &str = "REPRIEVE_CONFIG";
/// Variables whose names are shorter than their keys'.
const SHORT_VARIABLES: [(&str, &str); 2] =
    [("REPRIEVE_STORE", "store.url"), ("REPRIEVE_GENERATION", "recovery.generation")];
/// Keys whose values are tables of their own.
const TABLE_VALUES: [&str; 1] = ["policy.settings"];

/// Tables that hold keys. An empty one says nothing.
pub(super) const SECTIONS: [&str; 7] = ["store", "recovery", "policy", "policy.limits", "http", "perspective", "log"];

/// What flags say.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--store`
    pub store_url: Option<String>,
    /// `--policy`
    pub policy_path: Option<String>,
    /// `--generation`
    pub generation: Option<String>,
}

/// Puts file, environment and flags together, in this order.
pub(super) fn gather(
    file: Option<&Path>,
    environment: impl Iterator<Item = (OsString, OsString)>,
    overrides: Overrides,
) -> Result<Settings, ConfigError> {
    let variables: Vec<(String, OsString)> = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    let mut settings = Settings::default();
    if let Some(file) = self::file(file, &variables) {
        read_file(&mut settings, &file)?;
    }
    // A short name before a long one, whatever the order of the environment, so that the result is always the same.
    for (short, key) in SHORT_VARIABLES {
        if let Some((name, value)) = variables.iter().find(|(name, _)| name == short) {
            set_variable(&mut settings, name, key.to_owned(), value)?;
        }
    }
    for (name, value) in &variables {
        if let Some((section, key)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once("__")) {
            let key = format!("{section}.{}", key.replace("__", ".")).to_lowercase();
            set_variable(&mut settings, name, key, value)?;
        }
    }
    let flags = [
        ("--store", "store.url", overrides.store_url),
        ("--policy", "policy.path", overrides.policy_path),
        ("--generation", "recovery.generation", overrides.generation),
    ];
    for (flag, key, value) in flags {
        if let Some(value) = value {
            settings.set(key.to_owned(), Value::String(value), Origin::Flag(flag));
        }
    }
    Ok(settings)
}

/// The file to read: the one that is given, else the one that the environment names.
pub(super) fn file(given: Option<&Path>, variables: &[(impl AsRef<OsStr>, OsString)]) -> Option<PathBuf> {
    let named = || variables.iter().find(|(name, _)| name.as_ref() == CONFIG_VARIABLE).map(|(_, path)| path.into());
    given.map(Path::to_path_buf).or_else(named)
}

fn set_variable(settings: &mut Settings, name: &str, key: String, value: &OsStr) -> Result<(), ConfigError> {
    let origin = Origin::Variable(name.to_owned());
    let Some(text) = value.to_str() else {
        let value = value.to_string_lossy().into_owned();
        return Err(ConfigError::Value { origin, key, value, problem: "is no UTF-8".to_owned() });
    };
    settings.set(key, Value::String(text.to_owned()), origin);
    Ok(())
}

/// Whether it is a pipe or the like, which blocks until somebody writes to it.
pub(super) fn is_pipe(found: &Metadata) -> bool {
    !found.is_file() && !found.is_dir()
}

fn read_file(settings: &mut Settings, file: &Path) -> Result<(), ConfigError> {
    let refused = |problem: String| ConfigError::Read { file: file.to_path_buf(), problem };
    let mut text = String::new();
    let opened = File::open(file).and_then(|opened| opened.take(MAX_FILE + 1).read_to_string(&mut text));
    opened.map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > MAX_FILE {
        return Err(refused(format!("it is larger than {} MiB", MAX_FILE >> 20)));
    }
    let table: Table = text
        .parse()
        .map_err(|error| ConfigError::Syntax { file: file.to_path_buf(), problem: toml_problem(&text, &error) })?;
    flatten(settings, "", table, file);
    Ok(())
}

/// Sets each value under its section's name and its own.
fn flatten(settings: &mut Settings, section: &str, table: Table, file: &Path) {
    for (name, value) in table {
        let key = if section.is_empty() { name } else { format!("{section}.{name}") };
        if let Value::Table(inner) = &value
            && !TABLE_VALUES.contains(&key.as_str())
            && (!inner.is_empty() || SECTIONS.contains(&key.as_str()))
        {
            flatten(settings, &key, inner.clone(), file);
        } else {
            settings.set(key, value, Origin::File(file.to_path_buf()));
        }
    }
}
