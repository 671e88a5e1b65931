//! A PostgreSQL server for this test process.
//!
//! It is started once, by the first test that needs it. A shell of its own watches over it: when the test process
//! ends, however it ends, the shell's standard input closes, and it stops the server and removes its folder.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::psql::run_psql;

const PREFIX: &str = "reprieve-postgres-";

/// Settings that make a throw-away server fast, and its time zone one that nobody expects.
const SETTINGS: &[&str] = &[
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_connections=300",
    "shared_buffers=64MB",
    "max_wal_size=256MB",
    "autovacuum=off",
    "log_min_messages=warning",
    "log_line_prefix=%m [%p] %d ",
    "timezone=Australia/Lord_Howe",
];

/// Starts the server, waits for the end of standard input, stops the server, removes the folder.
const GUARD: &str = r#"
folder=$1; bin=$2; port=$3; password=$4; shift 4
mkdir -m 700 "$folder/socket" && printf %s "$password" >"$folder/password" &&
"$bin/initdb" -D "$folder/data" -U postgres -E UTF8 --locale=C --no-sync \
  --auth-local=trust --auth-host=md5 --pwfile="$folder/password" >"$folder/initdb.log" 2>&1 </dev/null &&
"$bin/postgres" -D "$folder/data" -p "$port" -k "$folder/socket" -c listen_addresses=127.0.0.1 "$@" \
  >"$folder/server.log" 2>&1 </dev/null &
server=$!
while read -r _; do :; done
pid=$(head -n 1 "$folder/data/postmaster.pid" 2>/dev/null)
kill -QUIT "${pid:-$server}" 2>/dev/null
wait "$server"
rm -rf "$folder"
"#;

/// A running server.
pub struct Server {
    /// Where its programs are.
    pub bin: PathBuf,
    port: u16,
    password: String,
    folder: PathBuf,
    // Held, not used: closing its standard input ends the server.
    _guard: Child,
}

impl Server {
    /// The server of this process, which forgets all in a crash; started at the first call.
    pub fn shared() -> &'static Self {
        Self::shared_with(&parent_folder(), SETTINGS)
    }

    /// The server of this process. Where its data are and its settings are those of the first call.
    pub fn shared_with(parent: &Path, settings: &[&str]) -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| {
            remove_stale_folders();
            start(parent, settings)
        })
    }

    /// The URL of one of its databases, for its superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_as("postgres", &self.password, database)
    }

    /// What it has logged about the database of this URL.
    pub fn log_of(&self, url: &str) -> String {
        let database = format!(" {} ", url.rsplit('/').next().unwrap());
        let log = fs::read_to_string(self.folder.join("server.log")).expect("the server's log can be read");
        log.lines().filter(|line| line.contains(&database)).map(|line| format!("{line}\n")).collect()
    }

    /// The URL of one of its databases, for another role.
    pub fn url_as(&self, role: &str, password: &str, database: &str) -> String {
        format!("postgres://{role}:{password}@127.0.0.1:{}/{database}", self.port)
    }
}

fn start(parent: &Path, settings: &[&str]) -> Server {
    let bin = bin_folder();
    let folder = make_folder(parent);
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let password = uuid::Uuid::now_v7().simple().to_string();
    let mut guard = unprivileged("sh");
    guard.args(["-c", GUARD, "guard"]).arg(&folder).arg(&bin).arg(port.to_string()).arg(&password);
    for setting in settings {
        guard.args(["-c", setting]);
    }
    std::os::unix::process::CommandExt::process_group(&mut guard, 0);
    let guard = guard
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell starts");
    let server = Server { bin, port, password, folder, _guard: guard };
    wait_until_ready(&server);
    server
}

fn wait_until_ready(server: &Server) {
    let folder = &server.folder;
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = run_psql(&server.bin, &server.url("postgres"), "select 1");
        if answer.as_deref() == Ok("1") {
            return;
        }
        let log = ["initdb.log", "server.log"].map(|log| fs::read_to_string(folder.join(log)).unwrap_or_default());
        assert!(
            Instant::now() < deadline
                && !log.concat().contains("initdb: error")
                && !log.concat().contains("FATAL:  could not"),
            "PostgreSQL did not start in {}: {answer:?}\n{}",
            folder.display(),
            log.join("\n")
        );
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The newest installed server's programs.
fn bin_folder() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().parse().unwrap_or(0), entry.path().join("bin")))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    found.sort();
    let on_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    found
        .pop()
        .map(|(_, bin)| bin)
        .or(on_path)
        .expect("no PostgreSQL server is installed, and these tests need a real one: run `make bootstrap`")
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A command that does not run as root, as the server demands.
fn unprivileged(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", program]);
    command
}

/// Where servers live: in memory where there is room for it, since a database per test is a lot to write.
fn parent_folder() -> PathBuf {
    const ROOM_MIB: u64 = 6 * 1024;
    let memory = PathBuf::from("/dev/shm");
    let df = Command::new("df").args(["--output=avail", "--block-size=1M"]).arg(&memory).output();
    let room = df.ok().and_then(|df| String::from_utf8_lossy(&df.stdout).lines().nth(1)?.trim().parse::<u64>().ok());
    if room.is_some_and(|room| room >= ROOM_MIB) {
        memory
    } else if is_root() {
        PathBuf::from("/tmp")
    } else {
        std::env::temp_dir()
    }
}

fn make_folder(parent: &Path) -> PathBuf {
    let folder = parent.join(format!("{PREFIX}{}-{}", std::process::id(), uuid::Uuid::now_v7().simple()));
    let made = unprivileged("mkdir").args(["-m", "700"]).arg(&folder).status().expect("mkdir starts");
    assert!(made.success(), "{} cannot be made for the user postgres: run `make bootstrap`", folder.display());
    folder
}

/// Removes what servers left behind whose guard was killed, too.
fn remove_stale_folders() {
    let parents = [PathBuf::from("/dev/shm"), PathBuf::from("/tmp"), std::env::temp_dir()];
    for entry in parents.into_iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
