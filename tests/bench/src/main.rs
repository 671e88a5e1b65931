//! What recovery costs, beside what it is compared with, all in one run on one machine.
//!
//! Machines are noisy, so every figure is a median of several runs with its spread, and what counts are the ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a benchmark prints, and one that cannot go on says where"
)]

mod diffing;
mod draining;
mod policies;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../harness/psql.rs"]
mod psql;
mod recovery;
mod samples;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../harness/server.rs"]
mod server;
mod wakeup;

/// A server as it is installed: what is committed stays committed.
const SETTINGS: &[&str] = &[];

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some(diffing::PROGRAM) {
        return diffing::program().await;
    }
    let rows = std::env::args().nth(1).map_or(100_000, |rows| rows.parse().expect("the number of rows"));
    server::Server::shared_with(std::path::Path::new("/tmp"), SETTINGS);
    let template = recovery::template().await;
    // A second argument names one part to be measured alone.
    let part = std::env::args().nth(2);
    let is_asked = |name| part.as_deref().is_none_or(|part| part == name);
    if is_asked("policies") {
        policies::run().await;
    }
    if is_asked("recovery") {
        recovery::run(&template, rows).await;
    }
    if is_asked("draining") {
        draining::run(&template, rows).await;
    }
    if is_asked("diffing") {
        diffing::run(&template, rows).await;
    }
    if is_asked("wakeup") {
        wakeup::run().await;
    }
}
