//! The build that this host works for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::dead_letter::UNVERSIONED;

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

    /// Reads the file again, if there is one; true when the tag changed. A file that is missing, empty or not
    /// readable keeps the last tag: `Err` says why.
    pub async fn refresh(&self) -> Result<bool, String> {
        let Some(path) = &self.file else { return Ok(false) };
        let text = tokio::fs::read_to_string(path)
            .await
            .map_err(|error| format!("generation file {}: {error}", path.display()))?;
        let tag = text.trim();
        if tag.is_empty() {
            return Err(format!("generation file {} is empty", path.display()));
        }
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_deref() == Some(tag) {
            return Ok(false);
        }
        *current = Some(Arc::from(tag));
        Ok(true)
    }
}
