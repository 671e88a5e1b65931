//! Telling when files may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::links;

/// Files are read once nothing was written for so long.
const QUIET: Duration = Duration::from_millis(20);
/// A file that is written to all the time is looked at all the same, after so long.
const MOST_WAIT: Duration = Duration::from_millis(500);
/// How often files are looked at without being told: not every file system tells, and watches are limited.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches files by the folders that they, and the links on the way to them, are in: so a file that is replaced by
/// rename, by swapping a link, deleted and made again, or written in place is noticed.
///
/// What it says is a hint: the files may hold what they held before.
pub struct FileWatch {
    /// The system's watches; `None` when it has none to give, so that only looking is left.
    system: Option<RecommendedWatcher>,
    heard: Arc<Heard>,
    /// The folders that the system watches, each with what tells it from another of its name.
    folders: BTreeMap<PathBuf, Option<(u64, u64)>>,
    files: Vec<PathBuf>,
    marks: Vec<Mark>,
    look_every: Duration,
}

/// What the system's thread and the watch share.
#[derive(Default)]
struct Heard {
    hint: Notify,
    /// The names, links among them, whose change matters.
    names: Mutex<BTreeSet<PathBuf>>,
}

/// What shows that a file is another one, or was written to, without reading it.
type Mark = Option<(u64, u64, u64, [i64; 4])>;

impl FileWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let heard = Arc::new(Heard::default());
        let hears = Arc::clone(&heard);
        let system = notify::recommended_watcher(move |event: notify::Result<Event>| hears.take(event));
        let system = system.inspect_err(|error| {
            tracing::warn!(%error, "the system cannot watch files; they are looked at every second");
        });
        Self {
            system: system.ok(),
            heard,
            folders: BTreeMap::new(),
            files: Vec::new(),
            marks: Vec::new(),
            look_every: LOOK_EVERY,
        }
    }

    /// Watches these files, and no others, from now on. To be called before they are read, and again after each change,
    /// since a swapped link leads elsewhere.
    pub fn watch(&mut self, files: Vec<PathBuf>) {
        // Those watched before keep their marks: they may have been read since, and changed again.
        let known: BTreeMap<PathBuf, Mark> = self.files.drain(..).zip(self.marks.drain(..)).collect();
        self.marks = files.iter().map(|file| known.get(file).copied().unwrap_or_else(|| mark(file))).collect();
        let names: BTreeSet<PathBuf> = files.iter().flat_map(|file| links::names(file)).collect();
        let folders = names.iter().filter_map(|name| links::nearest_folder(name));
        let folders = folders.map(|folder| (folder.clone(), identity(&folder))).collect();
        *self.heard.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        self.watch_folders(folders);
        self.files = files;
    }

    /// Takes the files for known as they are now. To be called before they are read again.
    pub fn look(&mut self) {
        self.marks = self.files.iter().map(|file| mark(file)).collect();
    }

    fn watch_folders(&mut self, folders: BTreeMap<PathBuf, Option<(u64, u64)>>) {
        if let Some(system) = &mut self.system {
            // A folder that was made again has lost its watch, and one that was moved away has kept it.
            for (folder, _) in self.folders.iter().filter(|(folder, known)| folders.get(*folder) != Some(known)) {
                let _ = system.unwatch(folder);
            }
            for (folder, _) in folders.iter().filter(|(folder, found)| self.folders.get(*folder) != Some(found)) {
                if let Err(error) = system.watch(folder, RecursiveMode::NonRecursive) {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "a folder cannot be watched; it is looked at every second");
                }
            }
        }
        self.folders = folders;
    }

    /// Resolves when one of the files may have changed and nothing was written for a moment.
    pub async fn changed(&self) {
        tokio::select! {
            () = self.heard.hint.notified() => drop(timeout(MOST_WAIT, self.quiet()).await),
            () = self.looks_changed() => {}
        }
    }

    async fn quiet(&self) {
        while timeout(QUIET, self.heard.hint.notified()).await.is_ok() {}
    }

    /// Looks at the files again and again until one of them is another one.
    async fn looks_changed(&self) {
        loop {
            sleep(self.look_every).await;
            let files = self.files.clone();
            let marks = tokio::task::spawn_blocking(move || files.iter().map(|file| mark(file)).collect::<Vec<_>>());
            if marks.await.is_ok_and(|marks| marks != self.marks) {
                return;
            }
        }
    }
}

impl Default for FileWatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Heard {
    fn take(&self, event: notify::Result<Event>) {
        let matters = event.map_or(true, |event| changes(event.kind) && self.concerns(&event));
        if matters {
            self.hint.notify_one();
        }
    }

    /// Whether it is about one of the names or one of their folders. A folder may hold other files, such as a
    /// database, that change all the time.
    fn concerns(&self, event: &Event) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = |path: &PathBuf| names.iter().any(|name| name.starts_with(path));
        event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(is_one)
    }
}

/// Whether an event changes something: reading does not, or every look would be followed by another.
const fn changes(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

/// Which folder it is, whatever its name.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|found| (found.dev(), found.ino()))
}

fn mark(file: &Path) -> Mark {
    let of = |found: Metadata| {
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        (found.dev(), found.ino(), found.size(), times)
    };
    fs::metadata(file).ok().map(of)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// Longer than any test.
    const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
    const PATIENCE: Duration = Duration::from_secs(30);

    async fn is_heard(watch: &FileWatch) -> bool {
        timeout(PATIENCE, watch.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn the_system_tells_of_a_file_that_is_renamed_over_a_watched_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.wasm");
        fs::write(&file, "one").unwrap();
        let mut watch = FileWatch { look_every: NEVER, ..FileWatch::new() };
        watch.watch(vec![file.clone()]);
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &file).unwrap();
        assert!(is_heard(&watch).await);
    }

    #[tokio::test]
    async fn without_the_system_files_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.wasm");
        let mut watch = FileWatch { system: None, look_every: Duration::from_millis(5), ..FileWatch::new() };
        watch.watch(vec![file.clone()]);
        fs::write(&file, "one").unwrap();
        assert!(is_heard(&watch).await);
        watch.look();
        fs::remove_file(&file).unwrap();
        assert!(is_heard(&watch).await);
    }

    #[tokio::test]
    async fn a_file_beside_a_watched_one_and_reading_are_no_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.wasm");
        fs::write(&file, "one").unwrap();
        let mut watch = FileWatch { look_every: NEVER, ..FileWatch::new() };
        watch.watch(vec![file.clone()]);
        fs::write(folder.path().join("another"), "two").unwrap();
        fs::read(&file).unwrap();
        let heard = Arc::clone(&watch.heard);
        // What the system tells comes in order: once the last of these is heard, the others were no hints.
        heard.names.lock().unwrap().insert(folder.path().join("last"));
        fs::write(folder.path().join("last"), "three").unwrap();
        assert!(is_heard(&watch).await);
        let event = |name: &str| Event::new(EventKind::Any).add_path(folder.path().join(name));
        assert!(!heard.concerns(&event("another")) && heard.concerns(&event("rules.wasm")));
        assert!(!changes(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(changes(EventKind::Access(AccessKind::Close(AccessMode::Write))));
    }
}
