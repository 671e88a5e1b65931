//! The build that this host works for.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::dead_letter::UNVERSIONED;

/// The longest tag that a file may hold, in bytes.
pub const MAX_TAG: usize = 1024;

/// The generation of the application whose messages are recovered. Cheap to clone; clones share the value.
#[derive(Debug, Clone)]
pub struct Generation {
    file: Option<PathBuf>,
    current: Arc<Mutex<Option<Arc<str>>>>,
}

impl Generation {
    /// A generation that does not change; `None` when none is configured.
    #[must_use]
    pub fn fixed(tag: Option<String>) -> Self {
        Self { file: None, current: Arc::new(Mutex::new(tag.map(Arc::from))) }
    }

    /// A generation that stands in a file, which [`Generation::refresh`] reads.
    #[must_use]
    pub fn file(path: PathBuf) -> Self {
        Self { file: Some(path), current: Arc::default() }
    }

    /// The tag, if there is one.
    #[must_use]
    pub fn tag(&self) -> Option<Arc<str>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tag that rows get: `unversioned` when there is none.
    #[must_use]
    pub fn tag_or_unversioned(&self) -> Arc<str> {
        self.tag().unwrap_or_else(|| Arc::from(UNVERSIONED))
    }

    /// Reads the file again, if there is one; true when the tag changed. A file that is missing, not readable or holds
    /// anything but one line of at most [`MAX_TAG`] bytes keeps the last tag: `Err` says why.
    pub async fn refresh(&self) -> Result<bool, String> {
        let Some(path) = self.file.clone() else { return Ok(false) };
        let wrong = |problem: String| format!("generation file {}: {problem}", path.display());
        let read = tokio::task::spawn_blocking({
            let path = path.clone();
            move || read(&path)
        });
        let text = read.await.map_err(|error| wrong(error.to_string()))?.map_err(|error| wrong(error.to_string()))?;
        let tag = text.trim();
        match tag {
            "" => return Err(wrong("it is empty".to_owned())),
            _ if text.len() > MAX_TAG => return Err(wrong(format!("it holds more than {MAX_TAG} bytes"))),
            _ if tag.contains(char::is_control) => return Err(wrong("it holds more than one line".to_owned())),
            _ => {}
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_deref() == Some(tag) {
            return Ok(false);
        }
        *current = Some(Arc::from(tag));
        Ok(true)
    }
}

/// The start of the file: more than the longest tag shows that it is none.
fn read(path: &Path) -> io::Result<String> {
    // Asked before it is opened: opening a pipe waits for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_TAG as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[tokio::test]
    async fn what_is_no_tag_keeps_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generation");
        let generation = Generation::file(path.clone());
        std::fs::write(&path, "shop-1\n").unwrap();
        assert_eq!(generation.refresh().await, Ok(true));
        for (content, problem) in
            [("", "is empty"), ("a\nb", "more than one line"), (&*"x".repeat(MAX_TAG + 1), "more than 1024 bytes")]
        {
            std::fs::write(&path, content).unwrap();
            let error = generation.refresh().await.unwrap_err();
            assert!(error.contains(problem) && error.contains("generation file"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(generation.refresh().await.unwrap_err().contains("no regular file"));
        assert_eq!(generation.tag().as_deref(), Some("shop-1"));
    }
}
