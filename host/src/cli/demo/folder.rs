//! A folder that lasts as long as the demo.

use std::path::PathBuf;

use anyhow::Context;
use uuid::Uuid;

/// A folder for one store, removed when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one among the system's temporary files.
    pub fn temporary() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("reprieve-demo-{}", Uuid::now_v7()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }

    /// The URL of a store in it.
    pub fn store_url(&self) -> String {
        format!("sqlite://{}", self.0.join("demo.db").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind, it is one small folder among temporary ones.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
