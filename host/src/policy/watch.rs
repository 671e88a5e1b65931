//! Telling when files may have changed.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Files are read once nothing was written for so long.
const QUIET: Duration = Duration::from_millis(20);
/// A file that is written to all the time is looked at all the same, after so many times [`QUIET`].
const MOST_QUIETS: u32 = 25;
/// How often files are looked at without being told: not every file system tells, and watches are limited.
const LOOK: Duration = Duration::from_secs(1);
/// More links than this in one path are a circle.
const MOST_LINKS: usize = 40;

/// Watches files by the folders that they, and the links on the way to them, are in: so a file that is replaced by
/// rename, by swapping a link, deleted and made again, or written in place is noticed.
///
/// What it says is a hint: the files may hold what they held before.
pub struct FileWatch {
    /// The system's watches; `None` when it has none to give, so that only looking is left.
    system: Option<RecommendedWatcher>,
    heard: Arc<Heard>,
    folders: BTreeSet<PathBuf>,
    files: Vec<PathBuf>,
    marks: Vec<Mark>,
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
        Self { system: system.ok(), heard, folders: BTreeSet::new(), files: Vec::new(), marks: Vec::new() }
    }

    /// Watches these files, and no others, from now on. To be called again after each change, since a swapped link
    /// leads elsewhere.
    pub fn watch(&mut self, files: Vec<PathBuf>) {
        let names: BTreeSet<PathBuf> = files.iter().flat_map(|file| names(file)).collect();
        let folders: BTreeSet<PathBuf> = names.iter().filter_map(|name| nearest_folder(name)).collect();
        *self.heard.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        if let Some(system) = &mut self.system {
            for folder in self.folders.difference(&folders) {
                // It may be gone, and its watch with it.
                let _ = system.unwatch(folder);
            }
            for folder in &folders {
                // Also those watched before: a folder that was made again has lost its watch.
                if let Err(error) = system.watch(folder, RecursiveMode::NonRecursive) {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "a folder cannot be watched; it is looked at every second");
                }
            }
        }
        self.folders = folders;
        self.marks = files.iter().map(|file| mark(file)).collect();
        self.files = files;
    }

    /// Resolves when one of the files may have changed and nothing was written for a moment.
    pub async fn changed(&self) {
        loop {
            if timeout(LOOK, self.heard.hint.notified()).await.is_ok() {
                return self.quiet().await;
            }
            if self.looks_changed().await {
                return;
            }
        }
    }

    async fn quiet(&self) {
        for _ in 0..MOST_QUIETS {
            if timeout(QUIET, self.heard.hint.notified()).await.is_err() {
                return;
            }
            sleep(QUIET).await;
        }
    }

    async fn looks_changed(&self) -> bool {
        let files = self.files.clone();
        let marks = tokio::task::spawn_blocking(move || files.iter().map(|file| mark(file)).collect::<Vec<_>>());
        marks.await.is_ok_and(|marks| marks != self.marks)
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

/// The path itself and every link on the way to the file, each as the folder that holds it is watched.
fn names(file: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let mut left = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    for _ in 0..MOST_LINKS {
        let Some((link, rest)) = first_link(&left) else { break };
        let target = fs::read_link(&link).unwrap_or_default();
        left = link.parent().unwrap_or(&link).join(target).join(rest);
        names.push(link);
    }
    names.push(left);
    names
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
fn nearest_folder(name: &Path) -> Option<PathBuf> {
    name.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_path_buf)
}

fn mark(file: &Path) -> Mark {
    let of = |found: Metadata| {
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        (found.dev(), found.ino(), found.size(), times)
    };
    fs::metadata(file).ok().map(of)
}
