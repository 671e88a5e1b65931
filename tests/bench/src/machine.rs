//! What is measured on.

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::time::Instant;

use crate::program::Folder;
use crate::psql::psql;
use crate::samples::Samples;
use crate::server::Server;

const FLUSHES: u32 = 500;
const SETTINGS: [&str; 5] = ["fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "autovacuum"];

/// Prints the table.
pub fn tell() {
    let url = Server::shared().url("postgres");
    let settings = SETTINGS.map(|name| format!("{name} {}", psql(&url, &format!("show {name}"))));
    let cores = std::thread::available_parallelism().unwrap();
    println!("\n## The machine\n\n| | |\n|---|---|");
    println!("| processors | {cores} × {} |", line_of("/proc/cpuinfo", "model name"));
    println!("| memory | {} |", line_of("/proc/meminfo", "MemTotal"));
    println!("| PostgreSQL | {}; {} |", psql(&url, "show server_version"), settings.join(", "));
    println!("| 8 KiB written and flushed to the disk, in ms | {} of {FLUSHES} times |", flushes());
}

fn line_of(file: &str, key: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_once(':')).map_or("?", |(_, value)| value.trim()).to_owned()
}

/// As the database does for each commit that is on its own.
fn flushes() -> Samples {
    let folder = Folder::new();
    let mut file = File::create(folder.path.join("flushed")).unwrap();
    let mut times = Samples::default();
    for _ in 0..FLUSHES {
        let started = Instant::now();
        file.rewind().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        file.sync_data().unwrap();
        times.add_time(started.elapsed());
    }
    times
}
