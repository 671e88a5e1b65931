//! `policy diff` over a whole table, as a process of its own, beside a plain scan of the same columns.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use sqlx::sqlite::SqlitePool;

use crate::database::{Backlog, Database, open};
use crate::program::{Folder, command};
use crate::samples::Samples;
use crate::server::Server;
use crate::ways::per_second;

const RUNS: u32 = 3;
const MATRIX: &str = "builtin:default-matrix";
/// Each row is then decided differently: what is counted and kept is as much as can be.
const OTHER: &str = "[policy_by_reason.Throttled]\nmax_recovery_attempts = 0\n";

/// What a comparison reads.
const COLUMNS: &str = "dead_letter_id, source_table, source_id, stream_id, message_type, destination, perspective_name,
    metadata, failure_reason, error_text, attempts_when_dlq, dead_lettered_at, dead_lettered_by, recovery_status,
    recovery_attempts, last_recovery_at, next_recovery_at, recovered_at, generation, retried_on_generations,
    operator_disposition, operator_notes, operator_actor, error_fingerprint, error_fingerprint_version,
    source_created_at, source_position, incarnation, replay_credit, replay_credit_at, deferral, policy_errors,
    policy_error_digest, status_note";

const FILL_SQLITE: &str = "
insert into wh_dead_letters (dead_letter_id, source_table, source_id, message_type, destination, envelope, metadata,
    failure_reason, error_text, attempts_when_dlq, dead_lettered_at, generation, source_created_at)
with recursive n (n) as (select 1 union all select n + 1 from n where n < ?)
select printf('0190a%03x-%04x-7000-8000-%012x', n / 65536, n % 65536, n), 'wh_outbox',
    printf('0190a%03x-%04x-7000-9000-%012x', n / 65536, n % 65536, n), 'Shop.Orders.OrderPlaced', 'orders',
    json_object('event_data', json_object('order', n, 'text', hex(randomblob(480))), 'metadata', json('{}')),
    json_object('tenant', 'acme', 'correlation_id', n), 8, 'System.TimeoutException: the broker did not answer', 10,
    strftime('%Y-%m-%dT%H:%M:%f000Z', 1767225600 + n * 0.001, 'unixepoch'), 'g1', '2026-01-01T00:00:00.000000Z'
from n";

/// Prints the table.
pub async fn run(rows: u32) {
    let [mut scan, mut diff, mut memory] = std::array::from_fn(|_| Samples::default());
    let [mut scan_file, mut diff_file, mut memory_file] = std::array::from_fn(|_| Samples::default());
    let database = Database::filled(Backlog::of(rows)).await;
    let folder = Folder::new();
    std::fs::write(folder.path.join("other.toml"), OTHER).unwrap();
    let file = format!("sqlite://{}", folder.path.join("diff.db").display());
    fill_file(&file, rows).await;
    for _ in 0..RUNS {
        scan.add(copied(&database.url, rows));
        compared(&database.url, &folder.path, rows, &mut diff, &mut memory);
        scan_file.add(scanned(&file, rows).await);
        compared(&file, &folder.path, rows, &mut diff_file, &mut memory_file);
    }
    database.dropped().await;
    println!(
        "\n## diffing: `policy diff` over {rows} open rows of 1 KB, each decided differently: median (least to most) of {RUNS} runs\n"
    );
    println!("| | rows/s | of the plain scan | most resident memory, MiB |\n|---|---|---|---|");
    println!("| PostgreSQL: the same columns copied to a client that drops them | {scan} | 1 | |");
    println!("| PostgreSQL: policy diff | {diff} | {} | {memory} |", diff.over(&scan));
    println!("| SQLite: the lengths of the same columns summed | {scan_file} | 1 | |");
    println!("| SQLite: policy diff | {diff_file} | {} | {memory_file} |", diff_file.over(&scan_file));
}

/// The whole run, start and loading of the policies included.
fn compared(url: &str, folder: &Path, rows: u32, rate: &mut Samples, memory: &mut Samples) {
    let arguments = ["policy", "diff", MATRIX, MATRIX, "--new-settings", "other.toml", "--json"];
    let started = Instant::now();
    let done = command(folder, url, &arguments).output().unwrap();
    rate.add(per_second(rows, started));
    let report: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(
        (report["compared"].as_u64(), report["by_kind"]["decision"].as_u64()),
        (Some(rows.into()), Some(rows.into()))
    );
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    let kilobytes = told.lines().last().and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    memory.add(kilobytes.unwrap_or_else(|| panic!("{told}")) / 1024.0);
}

fn copied(url: &str, rows: u32) -> f64 {
    let copy = format!("copy (select {COLUMNS} from wh_dead_letters) to stdout");
    let started = Instant::now();
    let done = Command::new(Server::shared().bin.join("psql")).args([url, "-qc", &copy]).stdout(Stdio::null()).status();
    assert!(done.unwrap().success());
    per_second(rows, started)
}

async fn fill_file(url: &str, rows: u32) {
    open(url).await.migrate(false).await.unwrap();
    let pool = SqlitePool::connect(url).await.unwrap();
    sqlx::query(FILL_SQLITE).bind(rows).execute(&pool).await.unwrap();
    pool.close().await;
}

async fn scanned(url: &str, rows: u32) -> f64 {
    let lengths: Vec<String> = COLUMNS.split(',').map(|column| format!("coalesce(length({column}), 0)")).collect();
    let sum = format!("select count(*), sum({}) from wh_dead_letters", lengths.join(" + "));
    let pool = SqlitePool::connect(url).await.unwrap();
    let started = Instant::now();
    let (counted, _): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(sum)).fetch_one(&pool).await.unwrap();
    let rate = per_second(rows, started);
    assert_eq!(counted, i64::from(rows));
    pool.close().await;
    rate
}
