//! The folder for compiled code.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// `$XDG_CACHE_HOME/reprieve`, else `~/.cache/reprieve`; `None` without a home.
#[must_use]
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("reprieve"))
}

/// Makes the folder, or sees that the one that is there can be trusted with native code.
///
/// # Errors
///
/// It cannot be made, is a link or no folder, belongs to somebody else or is open to others.
pub fn prepared(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let refused = |reason: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if !found.is_dir() {
        return refused("it is no folder of its own".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        return refused(format!("its mode is {:o}, not 700", found.mode() & 0o777));
    }
    if found.uid() != own_user(folder)? {
        return refused(format!("it belongs to user {}", found.uid()));
    }
    folder.canonicalize()
}

/// The user that new files belong to.
fn own_user(folder: &Path) -> io::Result<u32> {
    let probe = folder.join(format!(".owner-{}", Uuid::now_v7()));
    let user = File::create_new(&probe)?.metadata()?.uid();
    fs::remove_file(&probe)?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_new_folder_is_closed_to_others() {
        let home = tempfile::tempdir().unwrap();
        let folder = prepared(&home.path().join("a/reprieve")).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(prepared(&folder).unwrap(), folder);
    }

    #[test]
    fn a_folder_open_to_others_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(prepared(home.path()).unwrap_err().to_string().contains("mode is 755"));
    }

    #[test]
    fn a_link_to_a_folder_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        symlink(home.path(), &link).unwrap();
        assert!(prepared(&link).is_err());
    }
}
