//! From the commit of a dead-lettering by another session to the commit of its re-emission by an idle worker.

use std::time::{Duration, Instant};

use reprieve::recovery::{RecoveryOptions, Worker};
use sqlx::postgres::{PgListener, PgPool};
use uuid::Uuid;

use crate::database::{Database, open};
use crate::samples::Samples;
use crate::ways::{default_matrix, scanner};

const TEN_MINUTES: Duration = Duration::from_secs(600);

const ANNOUNCE: &str = "
create function announce() returns trigger language plpgsql as $$
begin
    if new.message_type = 'recovered' then perform pg_notify('announced', new.message_id::text); end if;
    return new;
end $$;
create trigger announce after insert on wh_outbox for each row when (new.is_event) execute function announce()";

/// Prints the distribution.
pub async fn run(rows: u32) {
    let database = Database::empty().await;
    database.run(ANNOUNCE).await;
    let options =
        RecoveryOptions { scan_interval: TEN_MINUTES, probe_interval: TEN_MINUTES, ..RecoveryOptions::default() };
    let scanner = scanner(open(&database.url).await, default_matrix().await, options);
    let worker = tokio::spawn({
        let worker = Worker::new(scanner.clone());
        async move { worker.run().await }
    });
    let mut announced = PgListener::connect(&database.url).await.unwrap();
    announced.listen("announced").await.unwrap();
    let mut times = Samples::default();
    for n in 0..rows {
        // Every other row meets a worker that has been quiet for longer than it stays attentive after a signal.
        let pause = if n % 2 == 0 { 1_200 } else { u64::from(n) % 50 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        times.add_time(one(&database.pool, &mut announced).await);
    }
    scanner.shutdown.cancel();
    worker.await.unwrap();
    database.dropped().await;
    println!(
        "\n## wakeup: dead-lettered by another session, re-emitted by an idle worker: ms from commit to commit, {rows} rows\n"
    );
    println!("| p50 | p90 | p99 | most |\n|---|---|---|---|");
    let [p50, p90, p99, most] = [0.5, 0.9, 0.99, 1.0].map(|share| times.quantile(share));
    println!("| {p50:.1} | {p90:.1} | {p99:.1} | {most:.1} |");
}

async fn one(pool: &PgPool, announced: &mut PgListener) -> Duration {
    let id = Uuid::now_v7();
    sqlx::query(
        "insert into wh_outbox (message_id, destination, message_type, event_data, metadata, is_event)
         values ($1, 'orders', 'recovered', '{}', '{}', false)",
    )
    .bind(id)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query("update wh_outbox set is_event = true where message_id = $1").bind(id).execute(pool).await.unwrap();
    sqlx::query("select move_to_dead_letters($1, 'wh_outbox', $2, 8, 'no answer', null, 'g1')")
        .bind(Uuid::now_v7())
        .bind(id)
        .execute(pool)
        .await
        .unwrap();
    let committed = Instant::now();
    let back = announced.recv().await.unwrap();
    assert_eq!(back.payload(), id.to_string());
    committed.elapsed()
}
