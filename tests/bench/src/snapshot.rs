//! Recovering while another session holds a snapshot from before, which keeps old versions of rows and index entries alive.

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use crate::database::Backlog;
use crate::samples::Samples;
use crate::ways::{LANES, by_host, default_matrix};

const RUNS: u32 = 3;

/// Prints the table.
pub async fn run(rows: u32) {
    let policy = default_matrix().await;
    let backlog = Backlog::of(rows);
    let (mut alone, mut beside) = (Samples::default(), Samples::default());
    for _ in 0..RUNS {
        alone.add(backlog.measured(async |database| by_host(database, &policy, LANES).await).await);
        let held = backlog.measured(async |database| {
            let mut holder = PgConnection::connect(&database.url).await.unwrap();
            let hold = "begin isolation level repeatable read; select count(*) from wh_recovery_batches";
            sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
            let rate = by_host(database, &policy, LANES).await;
            sqlx::raw_sql("rollback").execute(&mut holder).await.unwrap();
            rate
        });
        beside.add(held.await);
    }
    println!("\n## snapshot: {rows} due rows of 1 KB, rows per second: median (least to most) of {RUNS} runs\n");
    println!("| | rows/s | of that without |\n|---|---|---|");
    println!("| reprieve, lanes: {LANES} | {alone} | 1 |");
    println!("| the same while another session holds a snapshot | {beside} | {} |", beside.over(&alone));
}
