//! The most resident memory of a running host.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::bodies::LARGE_BYTES;
use crate::database::{Backlog, Database};
use crate::program::{Folder, command, most_kilobytes};

/// How long a host is watched that has nothing to do.
const IDLE: Duration = Duration::from_secs(5);
const SERVE: [&str; 4] = ["serve", "--no-migrate", "--generation", "g1"];
const IS_OPEN: &str = "select exists (select from wh_dead_letters where recovered_at is null)";

/// Prints the table.
pub async fn run(rows: u32) {
    let large_rows = (rows / 50).max(1);
    let idle = of_host(&Database::empty().await).await;
    let busy = Backlog::of(rows).measured(of_host).await;
    let large = Backlog { body_bytes: LARGE_BYTES, ..Backlog::of(large_rows) }.measured(of_host).await;
    println!("\n## memory: the most that was resident in a host (`serve`), from its start until nothing was open\n");
    println!("| | MiB | more than idle |\n|---|---|---|");
    println!("| idle for {} s | {idle:.1} | |", IDLE.as_secs());
    println!("| {rows} due rows of 1 KB | {busy:.1} | {:.1} |", busy - idle);
    println!("| {large_rows} due rows of 100 KB | {large:.1} | {:.1} |", large - idle);
}

async fn of_host(database: &Database) -> f64 {
    let folder = Folder::new();
    let mut serve = command(&folder.path, &database.url, &SERVE);
    // It would note on each row that it has been replayed on this generation, before it begins.
    serve.env("REPRIEVE_RECOVERY__ENABLE_GENERATION_REPLAY", "false");
    serve.env("REPRIEVE_HTTP__LISTEN", "127.0.0.1:0").stdout(Stdio::null()).stderr(Stdio::null());
    let mut host = serve.spawn().unwrap();
    if database.rows == 0 {
        tokio::time::sleep(IDLE).await;
    }
    while sqlx::query_scalar(IS_OPEN).fetch_one(&database.pool).await.unwrap() {
        assert_eq!(host.try_wait().unwrap(), None, "the host ended");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(database.count("wh_outbox").await, database.rows);
    let most = f64::from(most_kilobytes(&host.id().to_string())) / 1024.0;
    stop(host);
    most
}

fn stop(mut host: Child) {
    let told = Command::new("kill").arg(host.id().to_string()).status().unwrap();
    assert!(told.success() && host.wait().unwrap().success());
}
