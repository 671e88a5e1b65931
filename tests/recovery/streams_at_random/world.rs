//! Hosts, applications and operators that take the steps.

use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::{FailureReason, SourceTable};
use reprieve::recovery::{RecoveryOptions, Scanner};
use reprieve::store::{Move, OperatorChange, OperatorVerb, Sweep, Target};
use serde_json::{Value, json};
use uuid::Uuid;

use super::seen::{Seen, nothing_is_lost, order_is_kept};
use super::step::{MESSAGES, Step, Verb};
use crate::harness::rows::{moving, refuse_destination, with};
use crate::harness::{Backend, at, begin, claim, id, outbox_row, source, stream, time_text};
use crate::recovery::host::Told;
use crate::recovery::streams::host_that;

const STREAMS: u64 = 2;
/// Longer than any wait of the policy, the host and a dead host's batch.
const A_WHILE: i64 = 3 * 24 * 60 * 60;

/// How far this world is ahead: what applications do by SQL goes by the system's clock, and is past.
const A_CENTURY: i64 = 100 * 365 * 24 * 60 * 60;

/// Everything outside the store.
pub struct World<'a> {
    store: &'a Backend,
    host: Scanner,
    held_blocks: bool,
    seconds: i64,
    deaths: u64,
    seen: Seen,
}

impl<'a> World<'a> {
    /// At the beginning, with every message in its table.
    pub async fn new(store: &'a Backend, held_blocks: bool) -> Self {
        for table in ["wh_dead_letters", "wh_recovery_batches", "wh_dead_letter_decisions", "wh_outbox"] {
            store.execute(&format!("delete from {table}")).await;
        }
        refuse(store, false).await;
        for message in 1..=MESSAGES {
            store.insert("wh_outbox", &row(message)).await;
        }
        store.execute("delete from arrivals").await;
        let options = RecoveryOptions { held_blocks_stream: held_blocks, ..Default::default() };
        let host = host_that(store, options).await;
        Self { store, host, held_blocks, seconds: A_CENTURY, deaths: 0, seen: Seen::of(store).await }
    }

    fn now(&self) -> Timestamp {
        at(self.seconds)
    }

    /// Takes a step, and looks what came of it.
    pub async fn take(&mut self, step: &Step) -> Result<(), String> {
        self.seconds += 1;
        self.carry_out(step).await;
        let before = std::mem::replace(&mut self.seen, Seen::of(self.store).await);
        nothing_is_lost(&before, &self.seen)?;
        // Then somebody else than a host brought the message back.
        if matches!(step, Step::Appear(_) | Step::Call(Verb::Recover, _)) {
            return Ok(());
        }
        order_is_kept(&before, &self.seen, self.held_blocks)
    }

    /// Lets everything go, and waits: every row ends recovered, held or given up.
    pub async fn comes_to_rest(&mut self) -> Result<(), String> {
        refuse(self.store, false).await;
        for _ in 0..8 {
            if self.held_blocks {
                let held = self.seen.letters.iter().filter(|letter| letter.is_held()).map(|letter| letter.id);
                self.operate(OperatorVerb::GiveUp, held.collect()).await;
            }
            self.seconds += A_WHILE;
            self.take(&Step::TwoScan(3)).await?;
        }
        match self.seen.letters.iter().find(|letter| letter.is_open()) {
            Some(letter) => Err(format!("{letter:?} is open still")),
            None => Ok(()),
        }
    }

    async fn carry_out(&mut self, step: &Step) {
        let (store, now) = (self.store, self.now());
        match step {
            Step::Die(message, reason) => self.die(*message, *reason).await,
            Step::Appear(message) => {
                if store.source_row("wh_outbox", source(*message)).await.is_none() {
                    let there = json!({ "destination": "first" });
                    store.insert("wh_outbox", &with(row(*message), there)).await;
                }
            }
            Step::Scan(size) => {
                let host = Scanner { now: Some(now), ..self.host_of(*size) };
                within("a cycle", host.cycle()).await.unwrap();
            }
            Step::TwoScan(size) => {
                let (one, two) = (self.host_of(*size), self.host_of(*size));
                within("two hosts", async { tokio::join!(one.scans_at(now), two.scans_at(now)) }).await;
            }
            Step::DieInMidBatch(max) => {
                let claimed = claim(&**store, *max, now).await;
                let whole = claimed.claim.rows.iter().all(|row| row.siblings.superseded_by.is_none());
                if whole && !claimed.ids().is_empty() {
                    begin(&**store, claimed.batch_id, &claimed.ids(), &[], now).await;
                }
            }
            Step::DieWhileDeciding(max) => drop(claim(&**store, *max, now).await),
            Step::Sweep(generation) => {
                let generation = format!("g{generation}");
                let request = Sweep { generation: &generation, stagger: Duration::ZERO, now: Some(now) };
                store.sweep(&request).await.unwrap();
            }
            Step::Operate(verb, message) => {
                self.operate(*verb, self.newest(*message).into_iter().collect()).await;
            }
            Step::Call(verb, message) => self.call(*verb, *message).await,
            Step::Pass(seconds) => self.seconds += seconds,
            Step::Refuse(refused) => refuse(store, *refused).await,
        }
    }

    async fn operate(&self, verb: OperatorVerb, ids: Vec<Uuid>) {
        let now = Some(self.now());
        let request = OperatorChange { verb, target: Target::Ids(ids), actor: "kim", note: None, now };
        self.store.change(&request).await.unwrap();
    }

    async fn call(&self, verb: Verb, message: u64) {
        let store = self.store;
        let Some(newest) = self.newest(message) else { return };
        match verb {
            Verb::Hold => store.mark_dead_letter_holding(newest).await.unwrap(),
            Verb::GiveUp => store.mark_dead_letter_permanently_failed(newest).await.unwrap(),
            Verb::Recover => drop(store.recover_dead_letter(newest, Some(self.now())).await.unwrap()),
            Verb::Schedule(seconds) => {
                let at = at(self.seconds + seconds);
                store.schedule_next_dead_letter_attempt(newest, at).await.unwrap();
            }
        }
    }

    fn host_of(&self, scan_batch_size: u32) -> Scanner {
        let options = RecoveryOptions { scan_batch_size, lanes: 2, ..(*self.host.options).clone() };
        Scanner { options: options.into(), instance: Uuid::now_v7(), ..self.host.clone() }
    }

    fn newest(&self, message: u64) -> Option<Uuid> {
        self.seen.newest(message).map(|letter| letter.id)
    }

    async fn die(&mut self, message: u64, reason: i32) {
        self.deaths += 1;
        let request = Move {
            dead_letter_id: id(self.deaths),
            failure_reason: FailureReason(reason),
            now: Some(self.now()),
            ..moving(SourceTable::Outbox, message)
        };
        self.store.move_to_dead_letters(&request).await.unwrap();
    }
}

/// Ends a test that would never end: rows that are put off until now are due for ever.
async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap_or_else(|_| panic!("{what} come to no end"))
}

fn row(message: u64) -> Value {
    let destination = if message.is_multiple_of(3) { "second" } else { "first" };
    // Two of a stream are as old as each other, and go by their ids.
    let made = i64::try_from(message / 4).unwrap() - 1000;
    let made = json!({ "created_at": time_text(at(made)), "destination": destination });
    with(with(outbox_row(message), json!({ "stream_id": stream(message % STREAMS) })), made)
}

/// Makes the outbox refuse messages to the second destination, or take them again.
async fn refuse(store: &Backend, refused: bool) {
    let on = if store.is_postgres() { " on wh_outbox" } else { "" };
    store.execute(&format!("drop trigger if exists refuse_destination{on}")).await;
    if store.is_postgres() {
        store.execute("drop function if exists refuse_destination").await;
    }
    if refused {
        store.execute(&refuse_destination(store, "second")).await;
    }
}
