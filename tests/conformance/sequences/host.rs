//! A host, an application and an operator that take the steps.

use jiff::Timestamp;
use reprieve::model::decision::Standing;
use reprieve::model::{Deferral, RecoveryStatus, SourceTable};
use reprieve::store::{Attempt, Begun, OperatorChange, Sweep, Target};
use serde_json::json;
use uuid::Uuid;

use super::step::{MESSAGES, Step};
use crate::harness::batches::{Claimed, waiting};
use crate::harness::rows::{moving, with};
use crate::harness::{Backend, at, attempt, begin, claim, ending, id, outbox_row, settle, source};

/// The moving parts outside the store.
pub struct Host {
    seconds: i64,
    deaths: u64,
    alive_at_start: bool,
    refusing: bool,
    claimed: Option<Claimed>,
    attempts: Option<Vec<Attempt>>,
}

impl Host {
    /// At the beginning, with every message in its table.
    pub fn new() -> Self {
        Self { seconds: 0, deaths: 0, alive_at_start: false, refusing: false, claimed: None, attempts: None }
    }

    fn now(&self) -> Timestamp {
        at(self.seconds)
    }

    /// Takes a step; what the store answered, in words that are the same for both stores.
    pub async fn take(&mut self, store: &Backend, step: &Step) -> String {
        if !std::mem::replace(&mut self.alive_at_start, true) {
            self.refuse(store, false).await;
            for message in 0..MESSAGES {
                store.insert("wh_outbox", &row(message)).await;
            }
        }
        self.seconds += 1;
        match step {
            Step::Die(message) => self.die(store, *message).await,
            Step::Appear(message) => self.appear(store, *message).await,
            Step::Claim(max) => self.claim(store, *max).await,
            Step::Begin(chosen) => self.begin(store, *chosen).await,
            Step::Settle => self.settle(store).await,
            Step::Kill => self.kill(),
            Step::Rescue => format!("{:?}", store.rescue(3, Some(self.now())).await.unwrap()),
            Step::Sweep(generation) => self.sweep(store, *generation).await,
            Step::Operate(verb, message) => {
                let target = Target::Ids(newest(store, *message).await.into_iter().collect());
                let request = OperatorChange { verb: *verb, target, actor: "kim", note: None, now: Some(self.now()) };
                format!("{:?}", store.change(&request).await.unwrap())
            }
            Step::Recover(message) => match newest(store, *message).await {
                Some(newest) => format!("{}", store.recover_dead_letter(newest, Some(self.now())).await.unwrap()),
                None => String::new(),
            },
            Step::Pass(seconds) => {
                self.seconds += seconds;
                String::new()
            }
            Step::Refuse(refuse) => self.refuse(store, *refuse).await,
        }
    }

    async fn die(&mut self, store: &Backend, message: u64) -> String {
        self.deaths += 1;
        let mut request = moving(SourceTable::Outbox, message);
        (request.dead_letter_id, request.now) = (id(self.deaths), Some(self.now()));
        format!("{:?}", store.move_to_dead_letters(&request).await.unwrap())
    }

    /// Only where the message is dead: what is in its table cannot be put there again.
    async fn appear(&self, store: &Backend, message: u64) -> String {
        if store.source_row("wh_outbox", source(message)).await.is_none() && !self.refusing {
            store.insert("wh_outbox", &row(message)).await;
        }
        String::new()
    }

    async fn claim(&mut self, store: &Backend, max: u32) -> String {
        if self.claimed.is_some() {
            return String::new();
        }
        let claimed = claim(&**store, max, self.now()).await;
        // Where exactly a pass goes on while streams are in hand, each store knows best.
        let told = format!("{:?}, more: {}", claimed.ids(), claimed.claim.cursor.is_some());
        self.claimed = (!claimed.ids().is_empty()).then_some(claimed);
        told
    }

    async fn begin(&mut self, store: &Backend, chosen: u32) -> String {
        let Some(claimed) = self.claimed.as_ref().filter(|_| self.attempts.is_none()) else { return String::new() };
        let now = self.now();
        let waits = Standing {
            status: RecoveryStatus::Pending,
            next_recovery_at: waiting(now, 20).next_recovery_at,
            deferral: Some(Deferral::Cooldown),
        };
        let (recover, wait): (Vec<_>, Vec<_>) = claimed
            .claim
            .rows
            .iter()
            .enumerate()
            .partition(|(place, row)| row.siblings.superseded_by.is_none() && (chosen >> place) & 1 == 1);
        let endings: Vec<_> = wait.iter().map(|(_, row)| ending(&row.entry, waits, None)).collect();
        let attempts: Vec<_> = recover.iter().map(|(_, row)| attempt(&row.entry, waiting(now, 15))).collect();
        let ids: Vec<Uuid> = attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
        let mut begun = begin(&**store, claimed.batch_id, &ids, &endings, now).await;
        if let Begun::Done { ended } = &mut begun {
            ended.sort();
        }
        if begun == Begun::Lost || attempts.is_empty() {
            self.claimed = None;
        } else {
            self.attempts = Some(attempts);
        }
        format!("{begun:?}")
    }

    async fn settle(&mut self, store: &Backend) -> String {
        let Some(attempts) = self.attempts.take() else { return String::new() };
        let batch_id = self.claimed.take().expect("a batch").batch_id;
        let settled = settle(&**store, batch_id, &attempts, self.now()).await;
        let told: Vec<_> = settled
            .iter()
            .map(|row| {
                // The engines word an error differently.
                let outcome = format!("{:?}", row.outcome);
                (row.dead_letter_id, outcome.split('(').next().unwrap_or_default().to_owned())
            })
            .collect();
        format!("{told:?}")
    }

    fn kill(&mut self) -> String {
        (self.claimed, self.attempts) = (None, None);
        String::new()
    }

    async fn sweep(&self, store: &Backend, generation: u8) -> String {
        let generation = format!("g{generation}");
        let request = Sweep { generation: &generation, stagger: std::time::Duration::ZERO, now: Some(self.now()) };
        format!("{}", store.sweep(&request).await.unwrap())
    }

    async fn refuse(&mut self, store: &Backend, refuse: bool) -> String {
        let on = if store.is_postgres() { " on wh_outbox" } else { "" };
        store.execute(&format!("drop trigger if exists refuse_destination{on}")).await;
        if store.is_postgres() {
            store.execute("drop function if exists refuse_destination").await;
        }
        if refuse {
            store.execute(&crate::harness::rows::refuse_destination(store, "second")).await;
        }
        self.refusing = refuse;
        String::new()
    }
}

fn row(message: u64) -> serde_json::Value {
    let destination = if message.is_multiple_of(2) { "first" } else { "second" };
    let stream = crate::harness::stream(message % 3);
    with(outbox_row(message), json!({"destination": destination, "stream_id": stream}))
}

async fn newest(store: &Backend, message: u64) -> Option<Uuid> {
    let sql = format!(
        "select dead_letter_id from wh_dead_letters where source_id = '{}' order by incarnation desc limit 1",
        source(message)
    );
    store.query(&sql).await.first().map(|row| row["dead_letter_id"].as_str().unwrap().parse().unwrap())
}
