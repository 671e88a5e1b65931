//! The values that were given, by key, and who has read them.

use std::collections::BTreeMap;

use toml::Value;

use super::error::{ConfigError, Origin};
use super::sources::SECTIONS;
use crate::model::names::{nearest, nearest_of_all};
use crate::model::text::excerpt;

/// How many characters of a value a message shows.
const MAX_SHOWN_VALUE: usize = 80;

/// One value that was given.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// A key that was read, as the reader described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The default as it is written in a file; `None` when there is none.
    pub(super) default: Option<String>,
    /// What is allowed.
    pub(super) range: String,
}

/// The values of one configuration.
#[derive(Debug, Default)]
pub(super) struct Settings {
    given: BTreeMap<String, Given>,
    known: BTreeMap<&'static str, Known>,
}

impl Settings {
    /// Sets a value; the later one wins.
    pub(super) fn set(&mut self, key: String, value: Value, origin: Origin) {
        self.given.insert(key, Given { value, origin });
    }

    /// Takes a key's value, and remembers the key as known.
    pub(super) fn take(&mut self, key: &'static str, default: Option<String>, range: String) -> Option<Given> {
        self.known.insert(key, Known { default, range });
        self.given.remove(key)
    }

    /// Drops the one of two keys that stands at the place of lower rank.
    pub(super) fn only_one(&mut self, one: &'static str, other: &'static str) -> Result<(), ConfigError> {
        let (Some(first), Some(second)) = (self.given.get(one), self.given.get(other)) else { return Ok(()) };
        match first.origin.rank().cmp(&second.origin.rank()) {
            std::cmp::Ordering::Equal => Err(ConfigError::Both { origin: first.origin.clone(), one, other }),
            std::cmp::Ordering::Less => {
                self.given.remove(one);
                Ok(())
            }
            std::cmp::Ordering::Greater => {
                self.given.remove(other);
                Ok(())
            }
        }
    }

    /// The place that a key's value stands at.
    pub(super) fn origin(&self, key: &str) -> Option<&Origin> {
        self.given.get(key).map(|given| &given.origin)
    }

    /// Drops a value that no longer counts.
    pub(super) fn forget(&mut self, key: &str) {
        self.given.remove(key);
    }

    /// Refuses what was given and not read.
    pub(super) fn refuse_unread(&self) -> Result<(), ConfigError> {
        let Some((key, given)) = self.given.first_key_value() else { return Ok(()) };
        let nearest = self.nearest(key).map(|known| match given.origin {
            Origin::Variable(_) => variable(known),
            Origin::File(_) | Origin::Flag(_) => known.to_owned(),
        });
        Err(ConfigError::UnknownKey { origin: given.origin.clone(), key: key.clone(), nearest })
    }

    /// The known key that was most likely meant, however far it is: the same name in another section, else the nearest
    /// one of its section, or of all when its section is like none.
    fn nearest(&self, key: &str) -> Option<&'static str> {
        let same_name = self.known.keys().copied().find(|known| parts(known).1 == parts(key).1);
        same_name.or_else(|| {
            let (section, name) = meant(key);
            self.nearest_within(section, name)
        })
    }

    /// The known key whose name comes nearest, of one section or of all.
    fn nearest_within(&self, section: Option<&str>, name: &str) -> Option<&'static str> {
        let within = |known: &&str| section.is_none_or(|section| parts(known).0 == section);
        let keys = || self.known.keys().copied().filter(within);
        let found = nearest_of_all(name, keys().map(|known| parts(known).1))?;
        keys().find(|known| parts(known).1 == found)
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> &BTreeMap<&'static str, Known> {
        &self.known
    }
}

/// The section of a key and its name there.
fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// The section that an unknown key was most likely meant for, `None` when it is like none, and the name there.
fn meant(key: &str) -> (Option<&'static str>, &str) {
    let (section, name) = parts(key);
    // What stands in no section may be a slip of one that was given a value, as in `htp = 80`. What stands in a section
    // is a section only by its exact name, as `limits` is in `[policy]`: any other is a slip of a name.
    let itself =
        if section.is_empty() { nearest(key, SECTIONS) } else { SECTIONS.into_iter().find(|known| *known == key) };
    match itself {
        Some(section) => (Some(section), ""),
        None => (nearest(section, SECTIONS), name),
    }
}

/// The environment variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("REPRIEVE_{}", key.replace('.', "__").to_uppercase())
}

impl Given {
    /// The error that refuses this value.
    pub(super) fn refused(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            origin: self.origin.clone(),
            key: key.to_owned(),
            // It may hold a password.
            value: if key == "store.url" {
                "…".to_owned()
            } else {
                excerpt(&self.value.to_string(), MAX_SHOWN_VALUE)
            },
            problem: problem.into(),
        }
    }

    /// Whether the value is text that may stand for another kind, since variables and flags hold nothing else.
    pub(super) const fn is_text_only(&self) -> bool {
        !matches!(self.origin, Origin::File(_))
    }
}
