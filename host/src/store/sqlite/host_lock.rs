//! One host at a time recovers from a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::SqliteStore;
use crate::store::{Result, StoreError};

/// See [`crate::store::RecoveryStore::become_recovering_host`].
///
/// The lock is the operating system's, on a file beside the database: a process that dies in any way loses it.
pub(super) fn become_recovering_host(store: &SqliteStore) -> Result<()> {
    let mut held = store.host_lock.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_some() {
        return Ok(());
    }
    let mut path = store.path.as_os_str().to_owned();
    path.push(".lock");
    let file = open(store, Path::new(&path))?;
    match file.try_lock() {
        Ok(()) => {
            *held = Some(file);
            store.orphans.store(true, Ordering::Release);
            Ok(())
        }
        Err(TryLockError::WouldBlock) => Err(StoreError::AnotherHost { store: store.fault.store().to_owned() }),
        Err(TryLockError::Error(error)) => Err(unusable(store, Path::new(&path), &error)),
    }
}

fn open(store: &SqliteStore, path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    opened.map_err(|error| unusable(store, path, &error))
}

fn unusable(store: &SqliteStore, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unusable {
        store: store.fault.store().to_owned(),
        problem: format!("its lock file {} cannot be used: {error}; make it writable for this user", path.display()),
    }
}
