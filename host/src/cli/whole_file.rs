//! Files that are written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Writes a file, or puts it in the place of the one that is there; where a link leads, the link stays. What is no regular
/// file, such as a device, is left as it is.
///
/// # Errors
///
/// It is something else than a file, or cannot be written; nothing has changed then.
pub fn write(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let target = target(file)?;
    let mut part = target.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let written = fs::write(&part, content).and_then(|()| fs::rename(&part, &target));
    if written.is_err() {
        // It says nothing more than what failed before.
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Where a file is to be, at the end of the links that lead there.
fn target(file: &Path) -> anyhow::Result<PathBuf> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(fs::canonicalize(file)?),
        Ok(_) => bail!("cannot write {}: it is there and is no regular file", file.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(file.to_owned()),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", file.display())),
    }
}
