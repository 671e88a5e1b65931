//! What one claim costs in tables of different sizes, in which as many rows are due.

use std::time::{Duration, Instant};

use reprieve::store::{Claim, ClaimRequest, Cursor, SharedStore};
use uuid::Uuid;

use crate::bodies::LARGE_BYTES;
use crate::database::{Backlog, Database, open};
use crate::psql::psql;
use crate::samples::Samples;

/// Passes over what is due, beside the first one.
const RUNS: u32 = 10;
const SMALL_ROWS: u32 = 10_000;
const SIZES: [u32; 2] = [SMALL_ROWS, 1_000_000];
const CLAIMED: u32 = 200;
/// Ten full claims, and a last one that finds fewer rows than it may take, so that it meets those that cool down.
const DUE: u32 = 10 * CLAIMED + LAST;
const LAST: u32 = 10;

/// Prints the table.
pub async fn run(rows: u32) {
    let rows = rows.max(2 * DUE);
    let small = |rows| Backlog { body_bytes: 1, due: DUE, ..Backlog::of(rows) };
    let sizes = SIZES.into_iter().filter(|size| *size < rows).chain([rows]);
    let mut backlogs: Vec<(String, Backlog)> =
        sizes.map(|rows| (format!("{rows} rows, {} cooling", rows / 10), small(rows))).collect();
    let large = Backlog { body_bytes: LARGE_BYTES, ..small(SMALL_ROWS.min(rows)) };
    backlogs.push((format!("{} rows with bodies of 100 KB", large.rows), large));
    let mut tables = Vec::new();
    for (name, backlog) in backlogs {
        tables.push(Table::filled(name, backlog).await);
    }
    for _ in 0..RUNS {
        for table in &mut tables {
            table.passed().await;
        }
    }
    println!(
        "\n## claims: {DUE} due rows scattered over the table, in ms: median (least to most) of {RUNS} passes in turns\n"
    );
    println!(
        "| | claim of {CLAIMED}, first pass | claim of {CLAIMED} | of that in the first table | pages | claim of the last {LAST} | pages |\n|---|---|---|---|---|---|---|"
    );
    let base = tables[0].full.median();
    for table in tables {
        let Table { name, first, full, last, pages, last_pages, database, .. } = table;
        println!("| {name} | {first} | {full} | {:.2} | {pages} | {last} | {last_pages} |", full.median() / base);
        database.dropped().await;
    }
}

/// A table and what its claims took.
struct Table {
    name: String,
    database: Database,
    store: SharedStore,
    /// Claims of [`CLAIMED`] rows when nothing of the table has been read yet.
    first: Samples,
    full: Samples,
    last: Samples,
    /// Pages that one claim touches, of tables and indexes.
    pages: u32,
    last_pages: u32,
}

impl Table {
    async fn filled(name: String, backlog: Backlog) -> Self {
        let database = Database::filled(backlog).await;
        let store = open(&database.url).await;
        let [first, full, last] = std::array::from_fn(|_| Samples::default());
        let mut table = Self { name, database, store, first, full, last, pages: 0, last_pages: 0 };
        let cursor = table.passed().await;
        table.first = std::mem::take(&mut table.full);
        table.last = Samples::default();
        table.pages = pages(&table.database.url, None);
        table.last_pages = pages(&table.database.url, Some(cursor));
        table
    }

    /// One pass over what is due, of which every claim is given back; the place of the last claim.
    async fn passed(&mut self) -> Cursor {
        let mut after = None;
        loop {
            let (claim, time) = self.claimed(after).await;
            match (u32::try_from(claim.rows.len()).unwrap(), claim.cursor, after) {
                (CLAIMED, Some(cursor), _) => {
                    self.full.add_time(time);
                    after = Some(cursor);
                }
                (LAST, None, Some(after)) => {
                    self.last.add_time(time);
                    return after;
                }
                other => panic!("unexpected claim: {other:?}"),
            }
        }
    }

    async fn claimed(&self, after: Option<Cursor>) -> (Claim, Duration) {
        let batch_id = Uuid::now_v7();
        let lease = Duration::from_secs(60);
        let (owner, generation, max) = (batch_id, "g1", CLAIMED);
        let request = ClaimRequest { batch_id, owner, generation, max, after, whole_streams: false, lease, now: None };
        let started = Instant::now();
        let claim = self.store.claim(&request).await.unwrap();
        let time = started.elapsed();
        self.store.release(batch_id).await.unwrap();
        (claim, time)
    }
}

/// How many pages a claim touches in a session that knows its plan.
fn pages(url: &str, after: Option<Cursor>) -> u32 {
    let after = after.map_or("null, null, null".to_owned(), |Cursor { due_at, dead_lettered_at, dead_letter_id }| {
        format!("'{due_at}', '{dead_lettered_at}', '{dead_letter_id}'")
    });
    let owner = Uuid::now_v7();
    let claim = format!("* from reprieve_claim_rows('{owner}', '{owner}', 'g1', {CLAIMED}, {after}, false, 60, null)");
    let first = format!("begin; create temp table first as select {claim}; rollback;");
    let explained = psql(url, &format!("{first} begin; explain (analyze, buffers) select {claim}; rollback;"));
    let line = explained.lines().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
    let line = line.unwrap_or_else(|| panic!("{explained}"));
    let counted = |kind: &str| -> u32 {
        let number = line.split(' ').find_map(|word| word.strip_prefix(kind));
        number.map_or(0, |number| number.trim_end_matches(',').parse().unwrap())
    };
    counted("hit=") + counted("read=")
}
