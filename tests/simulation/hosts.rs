//! Hosts in the model: each step is one transaction, and between two of them anything can happen.

mod done;

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::Answers;
use reprieve::recovery::late::of_scan;
use reprieve::recovery::plan::{Asking, Terms};
use reprieve::recovery::planned::Plan;
use reprieve::recovery::streams::Parts;
use reprieve::store::{Attempt, Begin, Begun, Candidate, ClaimRequest, Cursor, Ending, Settle};
use uuid::Uuid;

use self::done::ids;
pub use self::done::{Done, Mishap};
use super::batches::MAX_POLICY_ERRORS;
use super::letter::tag;
use super::world::{SCAN_INTERVAL, World};

/// How long a batch lasts.
pub const LEASE: Duration = Duration::from_secs(60);

/// What is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// The newest generation.
    pub generation: u8,
    /// The version of the policy.
    pub policy: u32,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Preparing,
    Scanning,
    Claimed(Vec<Candidate>, Timestamp),
    Planned(Plan),
    Begun(Vec<Attempt>),
    GivingBack,
}

/// A process that recovers. What it knows is lost when it dies.
#[derive(Debug)]
pub struct Host {
    number: u128,
    batches: u128,
    deployed: Deployed,
    /// Whether the policy came while it was running.
    swapped: bool,
    phase: Phase,
    /// The batch in hand.
    batch: Uuid,
    after: Option<Cursor>,
    scan_at: Option<Timestamp>,
}

impl Host {
    pub const fn new(number: u128, deployed: Deployed) -> Self {
        let batch = Uuid::nil();
        Self { number, batches: 0, deployed, swapped: false, phase: Phase::Starting, batch, after: None, scan_at: None }
    }

    /// Dies, and comes again as another build.
    pub fn restart(&mut self, deployed: Deployed) {
        *self = Self { batches: self.batches, ..Self::new(self.number, deployed) };
    }

    /// Keeps the lease of what it works on.
    pub fn renew(&self, world: &mut World) {
        if matches!(self.phase, Phase::Claimed(..) | Phase::Planned(_) | Phase::Begun(_)) {
            world.renew(self.batch, LEASE);
        }
    }

    /// Whether it has nothing in hand and nothing to do.
    pub fn is_idle(&self, world: &World) -> bool {
        matches!(self.phase, Phase::Preparing) && !world.is_due(&tag(self.deployed.generation))
    }

    /// What it is about to do.
    pub fn intent(&self) -> String {
        let phase = match &self.phase {
            Phase::Starting => "sweeps".to_owned(),
            Phase::Preparing => "prepares a scan".to_owned(),
            Phase::Scanning => "claims".to_owned(),
            Phase::Claimed(rows, _) => format!("asks about {}", ids(rows.iter().map(|row| row.entry.dead_letter_id))),
            Phase::Planned(plan) => {
                let attempts = plan.attempts.iter().map(|attempt| attempt.dead_letter_id);
                let ended = |ending: &Ending| format!("{} {:?}", ending.dead_letter_id.as_u128(), ending.standing);
                let endings: Vec<String> = plan.endings.iter().map(ended).collect();
                format!("begins {} and ends {endings:?}", ids(attempts))
            }
            Phase::Begun(attempts) => format!("settles {}", ids(attempts.iter().map(|attempt| attempt.dead_letter_id))),
            Phase::GivingBack => "gives its batch back".to_owned(),
        };
        format!("host {} (g{}) {phase}", self.number, self.deployed.generation)
    }

    /// Its next transaction; `max` rows are claimed at most.
    pub fn step(&mut self, world: &mut World, deployed: Deployed, max: u32, mishap: Option<Mishap>) -> Done {
        let committed = !matches!(mishap, Some(Mishap::DiesBefore | Mishap::Refused));
        let told = mishap.is_none();
        let (phase, done) = match std::mem::replace(&mut self.phase, Phase::Preparing) {
            Phase::Starting => {
                let generation = self.deployed.generation;
                let swept = committed.then(|| world.sweep(generation)).map(|()| Done::Swept(generation));
                (Phase::Preparing, swept)
            }
            Phase::Preparing => (Phase::Scanning, self.prepare(world, deployed, committed)),
            Phase::Scanning => self.claim(world, max, committed, told),
            Phase::Claimed(rows, claimed_at) => {
                (if told { self.plan(world, rows, claimed_at) } else { Phase::GivingBack }, None)
            }
            Phase::Planned(plan) => self.begin(world, plan, committed, told),
            Phase::Begun(attempts) => self.settle(world, attempts, committed, told, max),
            Phase::GivingBack => {
                let batch = self.batch;
                let released = committed.then(|| world.release(batch)).map(|()| Done::Released(batch));
                (if told { Phase::Preparing } else { Phase::GivingBack }, released)
            }
        };
        self.phase = phase;
        if matches!(mishap, Some(Mishap::DiesBefore | Mishap::DiesAfter)) {
            self.restart(self.deployed);
        }
        done.unwrap_or(Done::Something)
    }

    /// What every scan starts with.
    fn prepare(&mut self, world: &mut World, deployed: Deployed, committed: bool) -> Option<Done> {
        (self.after, self.scan_at) = (None, None);
        self.swapped |= self.deployed.policy != deployed.policy;
        self.deployed.policy = deployed.policy;
        committed.then(|| {
            world.clear_deferrals(self.deployed.policy, self.swapped);
            world.take_operator_retries();
            world.rescue();
            Done::Rescued
        })
    }

    fn claim(&mut self, world: &mut World, max: u32, committed: bool, told: bool) -> (Phase, Option<Done>) {
        self.batches += 1;
        self.batch = Uuid::from_u128(self.number << 64 | self.batches);
        let generation = tag(self.deployed.generation);
        let request = ClaimRequest {
            batch_id: self.batch,
            owner: Uuid::from_u128(self.number),
            generation: &generation,
            max,
            after: self.after,
            whole_streams: self.batches.is_multiple_of(2),
            lease: LEASE,
            now: None,
        };
        let claim = committed.then(|| world.claim(&request));
        let claimed = claim.is_some().then_some(Done::Claimed(self.batch));
        match claim.filter(|_| told) {
            None => (Phase::GivingBack, claimed),
            Some(claim) if claim.rows.is_empty() => (Phase::Preparing, claimed),
            Some(claim) => {
                self.after = claim.cursor;
                self.scan_at.get_or_insert(claim.now);
                (Phase::Claimed(claim.rows, claim.now), claimed)
            }
        }
    }

    /// Where it goes on after a batch.
    const fn next(&self) -> Phase {
        if self.after.is_some() { Phase::Scanning } else { Phase::Preparing }
    }

    fn plan(&mut self, world: &World, rows: Vec<Candidate>, claimed_at: Timestamp) -> Phase {
        let now = self.scan_at.unwrap_or(world.now);
        let claimed = rows.len();
        let mut rows = of_scan(rows, now, claimed_at);
        if rows.len() < claimed {
            self.after = None;
        }
        let version = self.deployed.policy;
        let answers = rows.iter().map(|row| answer(world, row, version));
        let askings = Asking::each("simulated", &version.to_string(), answers);
        if answers_nothing(version) && askings.iter().any(|asking| asking.answers.is_err()) {
            return Phase::GivingBack;
        }
        let held_blocks_stream = world.terms.held_blocks;
        let terms =
            Terms { scan_interval: SCAN_INTERVAL, max_policy_errors: MAX_POLICY_ERRORS, held_blocks_stream, now };
        let parts = Parts::of(&rows, &askings, terms);
        let order = parts.order(held_blocks_stream).map(|order| world.stream_order(&order));
        let places = order.map(|order| parts.tell(&mut rows, order)).unwrap_or_default();
        let rows = rows.into_iter().map(|row| (row, "{}".to_owned())).collect();
        Phase::Planned(Plan::of(rows, askings, &places, terms))
    }

    fn begin(&self, world: &mut World, plan: Plan, committed: bool, told: bool) -> (Phase, Option<Done>) {
        let recover: Vec<Uuid> = plan.attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
        let (endings, streams) = (&plan.endings, world.terms);
        let request = Begin { batch_id: self.batch, recover: &recover, endings, streams, now: None };
        let Some(begun) = committed.then(|| world.begin(&request)) else { return (Phase::GivingBack, None) };
        let Begun::Done { ended } = begun else { return (if told { self.next() } else { Phase::GivingBack }, None) };
        let done = Done::Began(self.batch, plan.attempts.clone());
        if !told {
            return (Phase::GivingBack, Some(done));
        }
        if plan.attempts.is_empty() {
            return (self.next(), Some(done));
        }
        let ended: HashSet<Uuid> = ended.into_iter().collect();
        (Phase::Begun(plan.going(&ended).into_owned()), Some(done))
    }

    /// Tried again when it goes wrong, now and then given back instead or left to the end of the lease.
    fn settle(
        &self,
        world: &mut World,
        attempts: Vec<Attempt>,
        committed: bool,
        told: bool,
        choice: u32,
    ) -> (Phase, Option<Done>) {
        let request =
            Settle { batch_id: self.batch, attempts: &attempts, streams: world.terms, refusal: None, now: None };
        let settled = committed.then(|| world.settle(&request)).map(|settled| Done::Settled(self.batch, settled));
        let phase = match choice % 4 {
            _ if told => self.next(),
            0 => Phase::GivingBack,
            1 => Phase::Preparing,
            _ => Phase::Begun(attempts),
        };
        (phase, settled)
    }
}

/// Whether this version of the policy fails on everything, the probe entries included.
const fn answers_nothing(version: u32) -> bool {
    version % 5 == 4
}

fn answer(world: &World, row: &Candidate, version: u32) -> Result<Answers, String> {
    let letter = world.letter(row.entry.dead_letter_id).ok_or("unknown")?;
    let message = &world.messages[letter.message];
    if answers_nothing(version) || message.unanswered && version % 3 == 1 {
        return Err("it failed".to_owned());
    }
    let should_recover = !(message.skipped && version % 2 == 1);
    Ok(Answers { should_recover, policy: message.policy.clone(), stream_mode: message.mode })
}
