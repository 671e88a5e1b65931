//! What the files of a chain hold at one moment.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Map, Value};

use super::source::{MemberSource, Origin};
use super::{LoadError, digest};
use crate::model::chain::BUILTIN_DEFAULT_MATRIX;
use crate::model::settings::{SettingsFormat, SettingsSource};

/// The default matrix, as the build made it.
static DEFAULT_MATRIX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/default-matrix.wasm"));
const BUILTIN: &str = "builtin:";
/// The largest component that is read.
pub const MAX_COMPONENT: u64 = 128 << 20;
/// The largest file of settings that is read.
pub const MAX_SETTINGS: u64 = 1 << 20;

/// One member as its files held it.
pub struct ReadMember {
    /// Where its component comes from.
    pub origin: Origin,
    /// The component.
    pub bytes: Cow<'static, [u8]>,
    /// The component's SHA-256.
    pub sha256: String,
    /// A JSON object.
    pub settings: String,
    /// The SHA-256 of the file that the settings stand in, if they stand in one.
    pub settings_sha256: Option<String>,
}

/// What tells one content of a chain's files from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content(Vec<MemberContent>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberContent {
    origin: Origin,
    sha256: String,
    settings: String,
    settings_sha256: Option<String>,
}

impl Content {
    /// The content of what was read.
    pub fn of(chain: &[ReadMember]) -> Self {
        let member = |read: &ReadMember| MemberContent {
            origin: read.origin.clone(),
            sha256: read.sha256.clone(),
            settings: read.settings.clone(),
            settings_sha256: read.settings_sha256.clone(),
        };
        Self(chain.iter().map(member).collect())
    }

    /// The SHA-256 of the file that an error is about, when it was read.
    pub fn sha256(&self, error: &LoadError) -> Option<&str> {
        let is_at_fault = |member: &&MemberContent| match error.origin() {
            Some(origin) => member.origin == *origin,
            None => error.member().is_some_and(|name| member.origin.name() == name),
        };
        let member = self.0.iter().find(is_at_fault)?;
        let settings = member.settings_sha256.as_deref().filter(|_| matches!(error, LoadError::Settings { .. }));
        Some(settings.unwrap_or(&member.sha256))
    }
}

/// Reads the files of a chain whole.
///
/// # Errors
///
/// The first file that cannot be read, or is not the pinned one; settings that are no JSON object.
pub fn chain(chain: Vec<MemberSource>) -> Result<Vec<ReadMember>, LoadError> {
    chain.into_iter().map(member).collect()
}

/// Reads the files of one member.
///
/// # Errors
///
/// As [`chain`].
pub fn member(MemberSource { origin, settings, sha256: pinned }: MemberSource) -> Result<ReadMember, LoadError> {
    let (settings, settings_sha256) = settings_of(&origin.name(), settings)?;
    let settings = Value::Object(settings).to_string();
    let bytes = bytes(&origin)?;
    let sha256 = digest::of_bytes(&bytes);
    if let Some(pinned) = pinned.filter(|pinned| !pinned.eq_ignore_ascii_case(&sha256)) {
        return Err(LoadError::Pinned { origin, found: sha256, pinned });
    }
    Ok(ReadMember { origin, bytes, sha256, settings, settings_sha256 })
}

/// The settings, and the SHA-256 of the file that they stand in.
fn settings_of(member: &str, settings: SettingsSource) -> Result<(Map<String, Value>, Option<String>), LoadError> {
    let member = member.to_owned();
    match settings {
        SettingsSource::Given(Value::Null) => Ok((Map::new(), None)),
        SettingsSource::Given(Value::Object(settings)) => Ok((settings, None)),
        SettingsSource::Given(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(LoadError::Settings { member, reason: "not a JSON object".to_owned() })
        }
        SettingsSource::File(path) => {
            let unreadable = |source| LoadError::ReadSettings { member: member.clone(), path: path.clone(), source };
            let Some(bytes) = whole(&path, MAX_SETTINGS).map_err(unreadable)? else {
                return Err(LoadError::LargeSettings { member, path });
            };
            let sha256 = digest::of_bytes(&bytes);
            let format = SettingsFormat::of_extension(path.extension().and_then(|extension| extension.to_str()));
            let read = String::from_utf8(bytes).map_err(|_| "no UTF-8".to_owned()).and_then(|text| format.read(&text));
            let wrong = |reason| LoadError::UnreadableSettings { member, path, sha256: sha256.clone(), reason };
            read.map(|settings| (settings, Some(sha256.clone()))).map_err(wrong)
        }
    }
}

/// The bytes of a component.
///
/// # Errors
///
/// The file cannot be read, is no file or too large.
pub fn bytes(origin: &Origin) -> Result<Cow<'static, [u8]>, LoadError> {
    match origin {
        Origin::Builtin => Ok(Cow::Borrowed(DEFAULT_MATRIX)),
        Origin::File(path) => {
            let unreadable = |source| LoadError::Read { path: path.clone(), source };
            let bytes = not_misnamed(path).and_then(|()| whole(path, MAX_COMPONENT)).map_err(unreadable)?;
            bytes.map(Cow::Owned).ok_or_else(|| LoadError::TooLarge { path: path.clone() })
        }
    }
}

/// Tells a wrong name of a builtin from a file that is not there.
fn not_misnamed(path: &Path) -> io::Result<()> {
    if path.to_string_lossy().starts_with(BUILTIN) && std::fs::metadata(path).is_err() {
        let problem = format!("no such policy is built in, only {BUILTIN_DEFAULT_MATRIX}");
        return Err(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    Ok(())
}

/// The whole regular file; `None` when it is larger than `most` bytes.
///
/// # Errors
///
/// It cannot be read, or is no regular file.
pub fn whole(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // Asked before it is opened: opening a pipe waits for its writer.
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if found.len() > most {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // It may have grown since it was asked.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}
