//! A simulation: the protocol of batches as a pure model under a seeded scheduler.
//!
//! The store is in memory (`world`, `batches`, `lines`, `settling`, `spoken`) and does in each method what the SQL does
//! in one transaction. Hosts (`hosts`) take the product's own plans and decisions, a transaction at a time; they die
//! before and after each, are refused, and miss answers. Messages die and are done, time passes, builds and policies
//! change, operators and applications speak (`history`). After each step the tables are looked at (`invariants`).
//!
//! `REPRIEVE_SEED=N` tells one history step by step, `REPRIEVE_HISTORIES` runs more than the test does by itself,
//! `REPRIEVE_FIRST_SEED` others, and `REPRIEVE_MINUTES` ends a long run.
//!
//! Not in it: bodies, perspective rows whose event is gone, rows that cannot be read, staggered sweeps, and retention.

mod batches;
mod faults;
mod history;
mod hosts;
mod invariants;
mod letter;
mod lines;
mod random;
mod settling;
mod spoken;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::history::{Counts, run, told};

/// The histories of a test run, a second or two on one processor.
const HISTORIES: u64 = 1000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, and must be a whole number")))
}

/// Runs the histories of these seeds on all processors, until the time is up.
fn run_all(first: u64, histories: u64, most: Duration) -> (u64, Counts) {
    let (started, next) = (Instant::now(), AtomicU64::new(0));
    let work = || {
        let (mut done, mut counts) = (0, Counts::default());
        while started.elapsed() < most {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= histories {
                break;
            }
            let came = run(first.wrapping_add(n), None);
            counts.add(came.unwrap_or_else(|failure| {
                next.store(histories, Ordering::Relaxed);
                panic!("{failure}")
            }));
            done += 1;
        }
        (done, counts)
    };
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        threads.into_iter().fold((0, Counts::default()), |(mut histories, mut all), thread| {
            let (done, counts) = thread.join().expect("every history keeps the invariants");
            histories += done;
            all.add(counts);
            (histories, all)
        })
    })
}

#[test]
fn every_history_keeps_the_invariants() {
    if let Some(seed) = number("REPRIEVE_SEED") {
        told(seed).iter().zip(1..).for_each(|(step, number)| eprintln!("{number:5}  {step}"));
        run(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let histories = number("REPRIEVE_HISTORIES").unwrap_or(HISTORIES);
    let most = Duration::from_secs(60 * number("REPRIEVE_MINUTES").unwrap_or(60));
    let started = Instant::now();
    let (histories, counts) = run_all(number("REPRIEVE_FIRST_SEED").unwrap_or(0), histories, most);
    eprintln!("{histories} histories in {:?}: {counts:?}", started.elapsed());
    assert!(counts.all(), "something never came about: {counts:?}");
}

#[test]
fn a_seed_gives_the_same_history_again() {
    for seed in 0..20 {
        let steps = told(seed);
        assert!(steps.len() > 20 && steps == told(seed), "{seed}");
    }
}
