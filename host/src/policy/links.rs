//! The links on the way to a file.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// More links than this in one path are a circle.
const MOST_LINKS: usize = 40;

/// The path itself and every link on the way to the file, each as the folder that holds it is watched.
pub fn names(file: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let mut left = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    for _ in 0..MOST_LINKS {
        let Some((link, rest)) = first_link(&left) else { break };
        let target = fs::read_link(&link).unwrap_or_default();
        left = link.parent().unwrap_or(&link).join(target).join(rest);
        names.push(link);
    }
    names.push(without_parents(&left));
    names
}

/// The path without `..`, once no link is left on its way.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// The first link of a path, and what follows it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut parts = path.components();
    let mut walked = PathBuf::new();
    while let Some(part) = parts.next() {
        if part == Component::ParentDir {
            // No link is left before it.
            walked.pop();
            continue;
        }
        walked.push(part);
        if fs::symlink_metadata(&walked).is_ok_and(|found| found.is_symlink()) {
            return Some((walked, parts.as_path().to_path_buf()));
        }
    }
    None
}

/// The folder that a name is in, or the nearest one above it that is there: it tells when the folder comes back.
pub fn nearest_folder(name: &Path) -> Option<PathBuf> {
    name.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_mounted_configuration_is_watched_at_its_file_its_link_and_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().canonicalize().unwrap();
        fs::create_dir(mount.join("..2026")).unwrap();
        fs::write(mount.join("..2026/rules.wasm"), "").unwrap();
        symlink("..2026", mount.join("..data")).unwrap();
        symlink("..data/rules.wasm", mount.join("rules.wasm")).unwrap();
        let expected = ["rules.wasm", "..data", "..2026/rules.wasm"].map(|name| mount.join(name));
        assert_eq!(names(&mount.join("rules.wasm")), expected);
    }

    #[test]
    fn a_link_that_leads_upwards_is_followed_and_a_circle_ends() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("../c/rules.wasm", root.join("a/b/rules.wasm")).unwrap();
        assert_eq!(names(&root.join("a/b/rules.wasm")), [root.join("a/b/rules.wasm"), root.join("a/c/rules.wasm")]);
        symlink("circle", root.join("circle")).unwrap();
        assert_eq!(names(&root.join("circle")).len(), MOST_LINKS + 1);
    }

    #[test]
    fn the_nearest_folder_is_one_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("not/there/rules.wasm");
        assert_eq!(nearest_folder(&gone).as_deref(), Some(folder.path()));
    }
}
