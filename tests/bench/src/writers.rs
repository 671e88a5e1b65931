//! What dead-lettering by many sessions at once loses to the trigger that tells the hosts.

use std::process::Command;

use sqlx::postgres::PgListener;

use crate::database::Database;
use crate::program::Folder;
use crate::samples::Samples;
use crate::server::Server;

const RUNS: u32 = 3;
const WRITERS: u32 = 64;
const CHANNEL: &str = "wh_dead_letter_ready";

const FILL: &str = "
insert into wh_outbox (message_id, destination, message_type, event_data, metadata)
select bench_id('2026-01-01Z'::timestamptz + n * interval '1 millisecond', n::text), 'orders', 'Shop.Orders.OrderPlaced',
    jsonb_build_object('order', n, 'text', bench_text(950)), '{\"tenant\": \"acme\"}'
from generate_series(1, $1) n";

/// One commit of an application: the next message.
const MOVE: &str = "
select move_to_dead_letters(bench_id(clock_timestamp(), 'death' || t.turn), 'wh_outbox',
    bench_id('2026-01-01Z'::timestamptz + t.turn * interval '1 millisecond', t.turn::text), 8,
    'System.TimeoutException: the broker did not answer', null, 'g1')
from (select nextval('bench_turn') as turn offset 0) t;";

const NO_TRIGGER: &str = "drop trigger wh_dead_letters_signal on wh_dead_letters";
const UNTHROTTLED: &str = "
drop trigger wh_dead_letters_signal on wh_dead_letters;
create function notify_always() returns trigger language plpgsql as $$
begin
    perform pg_notify('wh_dead_letter_ready', '');
    return null;
end $$;
create trigger notify_always after insert on wh_dead_letters for each statement execute function notify_always()";

/// Prints the table.
pub async fn run(rows: u32) {
    let [mut bare, mut throttled, mut unthrottled] = std::array::from_fn(|_| Samples::default());
    for _ in 0..RUNS {
        bare.add(commits(rows, NO_TRIGGER).await);
        throttled.add(commits(rows, "").await);
        // As many would take too long.
        unthrottled.add(commits(rows / 10, UNTHROTTLED).await);
    }
    println!(
        "\n## writers: {rows} messages dead-lettered by {WRITERS} sessions, each its own commit: median (least to most) of {RUNS} runs\n"
    );
    println!("| | commits/s | of no trigger |\n|---|---|---|");
    println!("| no trigger | {bare} | 1 |");
    println!("| the trigger | {throttled} | {} |", throttled.over(&bare));
    println!("| one that notifies in every commit | {unthrottled} | {} |", unthrottled.over(&bare));
}

/// Commits per second while a host listens.
async fn commits(rows: u32, change: &str) -> f64 {
    let each = (rows / WRITERS).max(1);
    let database = Database::empty().await;
    sqlx::query(FILL).bind(i32::try_from(each * WRITERS).unwrap()).execute(&database.pool).await.unwrap();
    database.run(&format!("create sequence bench_turn; {change}")).await;
    database.settled("wh_outbox").await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen(CHANNEL).await.unwrap();
    let listens = tokio::spawn(async move { while listener.recv().await.is_ok() {} });
    let url = database.url.clone();
    let rate = tokio::task::spawn_blocking(move || moved(&url, each)).await.unwrap();
    listens.abort();
    assert_eq!(database.count("wh_dead_letters").await, each * WRITERS);
    database.dropped().await;
    rate
}

fn moved(url: &str, each: u32) -> f64 {
    let folder = Folder::new();
    let script = folder.path.join("move.sql");
    std::fs::write(&script, MOVE.replace('\n', " ")).unwrap();
    let mut pgbench = Command::new(Server::shared().bin.join("pgbench"));
    pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &WRITERS.to_string(), "-t", &each.to_string(), "-f"]);
    let done = pgbench.arg(&script).arg(url).output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    let rate = told.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("{done:?}"))
}
