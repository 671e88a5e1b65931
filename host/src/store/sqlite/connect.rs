//! Opening the file, and the two ways of working with it: one writer, some readers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions, SqliteSynchronous};
use tokio::sync::MutexGuard;

use super::SqliteStore;
use super::fault::Fault;
use crate::model::time::stored;
use crate::store::open::Options;
use crate::store::{Result, StoreError};

/// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The page cache of each connection, in KiB as SQLite writes it: large enough that the indexes of an import stay in it.
const CACHE: &str = "-65536";
/// The same where rows are only read through once.
const CACHE_FOR_READING: &str = "-8192";
const READERS: u32 = 4;
const SCHEME: &str = "sqlite://";

pub(super) const BEGIN: &str = "begin immediate";
pub(super) const COMMIT: &str = "commit";
const PROBE: &str = "select count(*) from sqlite_master";

impl SqliteStore {
    /// Opens the file that `sqlite://path` names. A relative path starts at the current folder.
    ///
    /// The file is put in WAL mode. Every commit is synced to the disk, so that what is committed survives the death
    /// of the process and of the machine. Opened for reading only, the file stays as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Url`] and [`StoreError::Unusable`] say what is wrong with the path or the file,
    /// [`StoreError::NotMigrated`] that there is no file and none may be created.
    pub async fn connect(url: &str, options: &Options) -> Result<Self> {
        let path = path_of(url)?;
        check_file(url, &path, options)?;
        let path = std::path::absolute(&path).unwrap_or(path);
        let fault = Fault::new(url);
        let connect = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(options.create)
            .read_only(options.read_only)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(false)
            .pragma("cache_size", if options.read_only { CACHE_FOR_READING } else { CACHE })
            .disable_statement_logging();
        let mut writer = connect.connect().await.map_err(|error| fault.of_opening(error))?;
        sqlx::query(PROBE).fetch_one(&mut writer).await.map_err(|error| fault.of("open the file", error))?;
        if !options.read_only {
            enter_wal(&mut writer, &fault).await?;
        }
        let connect = connect.create_if_missing(false);
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .acquire_timeout(Duration::from_secs(30))
            .test_before_acquire(false)
            .connect_lazy_with(connect.clone());
        // Two hosts that name one file by different links must meet at one lock.
        let path = path.canonicalize().unwrap_or(path);
        Ok(Self::assemble(path, fault, connect, writer, readers))
    }

    /// Starts a transaction that writes. Dropped before [`Write::commit`], it leaves no trace.
    ///
    /// `now` is the transaction's clock, read once the write lock is held.
    pub(super) async fn write(&self, now: Option<Timestamp>) -> Result<Write<'_>> {
        let mut slot = self.writer.lock().await;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.connect.connect().await.map_err(|error| self.fault.of("open the file", error))?,
        };
        match sqlx::query(BEGIN).execute(&mut conn).await {
            Ok(_) => Ok(Write { slot, conn, fault: &self.fault, now: stored(now.unwrap_or_else(Timestamp::now)) }),
            Err(error) => Err(self.fault.of("begin a transaction", error)),
        }
    }

    /// A connection to read from.
    pub(super) async fn read(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Sqlite>> {
        self.readers.acquire().await.map_err(|error| self.fault.of("open the file", error))
    }
}

/// A transaction that writes, and its clock.
///
/// The connection goes back to its place only after a commit. After anything else it is closed, which rolls back
/// whatever state an error or a dropped future left it in.
pub(super) struct Write<'a> {
    slot: MutexGuard<'a, Option<SqliteConnection>>,
    pub(super) conn: SqliteConnection,
    pub(super) fault: &'a Fault,
    pub(super) now: Timestamp,
}

impl Write<'_> {
    pub(super) async fn commit(self) -> Result<()> {
        let Self { mut slot, mut conn, fault, .. } = self;
        sqlx::query(COMMIT).execute(&mut conn).await.map_err(|error| fault.of("commit", error))?;
        *slot = Some(conn);
        Ok(())
    }
}

fn path_of(url: &str) -> Result<PathBuf> {
    let refused = |problem: &str| StoreError::Url { url: url.to_owned(), problem: problem.to_owned() };
    let path = match url.get(..SCHEME.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => url.get(SCHEME.len()..).unwrap_or_default(),
        _ => return Err(refused("expected sqlite://path/to/file.db")),
    };
    if path.is_empty() {
        return Err(refused("it names no file; expected sqlite://path/to/file.db"));
    }
    if path == ":memory:" {
        let problem = "a database in memory cannot be shared between the commands; name a file".to_owned();
        return Err(StoreError::Unusable { store: url.to_owned(), problem });
    }
    if path.contains('?') {
        return Err(refused("it takes no parameters; leave out what follows the question mark"));
    }
    Ok(PathBuf::from(path))
}

/// Finds what is wrong with the file before SQLite is asked, whose messages do not say.
fn check_file(url: &str, path: &Path, options: &Options) -> Result<()> {
    let unusable = |problem: String| Err(StoreError::Unusable { store: url.to_owned(), problem });
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => unusable("it is a folder; name a file in it".to_owned()),
        Ok(metadata) if !metadata.is_file() => unusable("it is no regular file; name a database file".to_owned()),
        Ok(metadata) if metadata.permissions().readonly() && !options.read_only => {
            unusable("the file is read-only; make it writable for this user".to_owned())
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                unusable(format!("there is no folder {}; create it first", folder.display()))
            }
            _ if options.create => Ok(()),
            _ => Err(StoreError::NotMigrated { store: url.to_owned() }),
        },
        Err(error) => unusable(format!("the file cannot be looked at: {error}")),
    }
}

/// Puts the database in WAL mode, which also proves that the file can be written.
async fn enter_wal(conn: &mut SqliteConnection, fault: &Fault) -> Result<()> {
    const WAL: &str = "pragma journal_mode = wal";
    let failed = |error| fault.of("open the file", error);
    // Changing the mode needs the file alone and does not wait for it: another process may be doing the same now.
    for _ in 0..100 {
        match sqlx::query(WAL).fetch_one(&mut *conn).await {
            Ok(_) => return Ok(()),
            Err(error) if Fault::is_busy(&error) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(StoreError::Unavailable {
        store: fault.store().to_owned(),
        problem: "another process keeps the file locked".to_owned(),
    })
}
