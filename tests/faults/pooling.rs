//! A proxy that pools transactions: two statements of one client may run in different sessions.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::host::Host;
use crate::cli::shop::{Kind, id, letter, lines};
use crate::harness::psql;

/// A proxy that ends with the test.
struct Pooler {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Two sessions for all clients of a database.
fn pooler_before(url: &str) -> Pooler {
    let (credentials, place) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (user, password) = credentials.split_once(':').unwrap();
    let (host, database) = place.split_once('/').unwrap();
    let (host, server_port) = host.split_once(':').unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "[databases]\n{database} = host={host} port={server_port} user={user} password={password}\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         default_pool_size = 2\n"
    );
    let file = folder.path().join("pgbouncer.ini");
    fs::write(&file, configuration).unwrap();
    // It does not run as root, and its folder is the test's.
    let mut command = if crate::harness::server::is_root() {
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program()]);
        command
    } else {
        Command::new(program())
    };
    let child = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.expect("pgbouncer is installed: run `make bootstrap`");
    let url = format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}");
    let pooler = Pooler { child, url, _folder: folder };
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "pgbouncer does not listen: run `make bootstrap`");
        std::thread::yield_now();
    }
    pooler
}

/// Debian keeps it where only root looks.
fn program() -> &'static str {
    let debian = "/usr/sbin/pgbouncer";
    if Path::new(debian).exists() { debian } else { "pgbouncer" }
}

#[test]
fn a_host_that_only_polls_recovers_behind_a_proxy_that_pools_transactions() {
    let letters: Vec<_> = (1..=500).map(|n| letter(n, json!({}))).collect();
    let shop = Kind::Postgres.shop_with(&letters);
    let direct = shop.store().unwrap().to_owned();
    let pooler = pooler_before(&direct);
    let serve = |more: &[&str]| {
        shop.program(&[&["serve", "--store", &pooler.url], more].concat())
            .env("REPRIEVE_RECOVERY__SIGNALS", "false")
            .env("REPRIEVE_RECOVERY__PROBE_INTERVAL", "100ms")
            .env("REPRIEVE_RECOVERY__LANES", "4")
    };
    let mut host = Host::start_program(serve(&["--generation", "shop-1"]));
    for _ in 0..500 {
        host.told("re-emitted");
    }
    // What comes later is found by looking.
    let more = shop.program(&["import", "-", "--store", &pooler.url]).env("REPRIEVE_RECOVERY__SIGNALS", "false");
    more.stdin(lines(&[letter(501, json!({}))])).run().exits(0);
    host.told("re-emitted");

    assert_eq!(shop.show(&id(501))["recovery_status"], "Recovered");
    assert_eq!(psql(&direct, "select count(*) from wh_outbox"), "501");
    assert_eq!(host.stop().code(), Some(0));
}
