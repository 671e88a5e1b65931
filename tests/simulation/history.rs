//! Histories: what happens when, from a seed.

mod counts;
mod steps;

use std::fmt;
use std::time::Duration;

use reprieve::store::OperatorVerb;
use uuid::Uuid;

pub use self::counts::Counts;
use super::faults::Fault;
use super::hosts::{Deployed, Done, Host, Mishap};
use super::invariants::{Auditor, Invariant, Violation, hold};
use super::random::Random;
use super::world::World;

/// The steps of a history before it comes to rest are fewer.
const STEPS: usize = 200;
/// Longer than any wait of a policy, a host and a dead host's batch.
const A_WHILE: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// The last steps that a failure tells.
const TOLD: usize = 25;

/// A history in which an invariant did not hold.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub steps: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violation: Violation { invariant, words }, steps } = self;
        writeln!(f, "{invariant:?} does not hold in the history of seed {seed}: {words}")?;
        writeln!(f, "run it again, step by step, with REPRIEVE_SEED={seed}; its last steps were:")?;
        let from = steps.len().saturating_sub(TOLD);
        steps[from..].iter().zip(from + 1..).try_for_each(|(step, number)| writeln!(f, "{number:5}  {step}"))
    }
}

/// Runs the history of a seed on a store with this fault, if any.
///
/// # Errors
///
/// The invariant that did not hold, with the steps.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Counts, Failure> {
    History::new(seed, fault, false).run().or_else(|_| {
        // The words cost more than the steps: they are made for a history that failed alone.
        History::new(seed, fault, true).run()
    })
}

/// The steps of the history of a seed in words, as far as it comes.
pub fn told(seed: u64) -> Vec<String> {
    let mut history = History::new(seed, None, true);
    let end = history.run_to_the_end();
    let mut words = history.words.unwrap_or_default();
    words.extend(end.err().map(|violation| format!("{:?} does not hold: {}", violation.invariant, violation.words)));
    words
}

struct History {
    seed: u64,
    random: Random,
    world: World,
    auditor: Auditor,
    hosts: Vec<Host>,
    deployed: Deployed,
    counts: Counts,
    words: Option<Vec<String>>,
}

impl History {
    fn new(seed: u64, fault: Option<Fault>, told: bool) -> Self {
        let mut random = Random::from_seed(seed);
        let world = World::new(&mut random, fault);
        let deployed = Deployed { generation: 1, policy: 0 };
        let hosts = (1..=2 + random.below(2) as u128).map(|number| Host::new(number, deployed)).collect();
        let auditor = Auditor::new(&world);
        let counts = Counts::default();
        Self { seed, random, auditor, world, hosts, deployed, counts, words: told.then(Vec::new) }
    }

    fn run(mut self) -> Result<Counts, Failure> {
        match self.run_to_the_end() {
            Ok(()) => Ok(self.counts),
            Err(violation) => Err(Failure { seed: self.seed, violation, steps: self.words.unwrap_or_default() }),
        }
    }

    fn run_to_the_end(&mut self) -> Result<(), Violation> {
        for _ in 0..20 + self.random.below(STEPS - 20) {
            self.any_step()?;
        }
        self.comes_to_rest()
    }

    /// Tells what happened, and looks whether all is well.
    fn after(&mut self, done: &Done, words: impl FnOnce() -> String) -> Result<(), Violation> {
        self.counts.steps += 1;
        if let Done::Settled(_, settled) = done {
            for row in settled {
                *self.counts.of(&row.outcome) += 1;
            }
        }
        if let Some(told) = &mut self.words {
            let time = self.world.now.as_second() - 1_000_000_000;
            told.push(format!("+{time} s: {}", words()));
        }
        self.auditor.check(&self.world, done)
    }

    fn host_takes(&mut self, at: usize, max: u32, mishap: Option<Mishap>) -> Result<(), Violation> {
        let before = self.words.is_some().then(|| self.hosts[at].intent());
        let batches = self.world.batches.len();
        let done = self.hosts[at].step(&mut self.world, self.deployed, max, mishap);
        if matches!(done, Done::Rescued) {
            self.counts.rescued += (batches - self.world.batches.len()) as u64;
        }
        if let Done::Began(_, attempts) = &done {
            self.counts.free += attempts.iter().filter(|attempt| attempt.credit.is_some()).count() as u64;
        }
        self.after(&done, || {
            let mishap = mishap.map(|mishap| format!(", {mishap:?}")).unwrap_or_default();
            format!("{}{mishap}: {done}", before.unwrap_or_default())
        })
    }

    /// Lets everything go, and waits: every row ends recovered, held or given up.
    fn comes_to_rest(&mut self) -> Result<(), Violation> {
        self.world.refuses = false;
        // A version that answers about everything.
        self.deployed.policy = (self.deployed.policy / 30 + 1) * 30;
        for host in &mut self.hosts {
            host.restart(self.deployed);
        }
        for _ in 0..8 {
            self.world.now += A_WHILE;
            if self.world.terms.held_blocks {
                let held = self.world.letters.iter().filter(|letter| letter.is_held());
                for id in held.map(|letter| letter.id).collect::<Vec<_>>() {
                    self.world.operate(OperatorVerb::GiveUp, id);
                    self.after(&Done::Something, || format!("an operator gives up {}", short(id)))?;
                }
            }
            self.hosts_scan()?;
        }
        let open = self.world.letters.iter().find(|letter| letter.is_open());
        hold(Invariant::ComesToRest, open.is_none(), || format!("{open:?} is open still"))?;
        let left = self.world.batches.first();
        hold(Invariant::ComesToRest, left.is_none(), || format!("{left:?} is left"))
    }

    /// One scan of each host, from its start to its end.
    fn hosts_scan(&mut self) -> Result<(), Violation> {
        for at in 0..self.hosts.len() {
            for round in 0.. {
                hold(Invariant::ComesToRest, round < 500, || format!("host {} comes to no end", at + 1))?;
                self.world.now += Duration::from_millis(1);
                self.host_takes(at, 3, None)?;
                if self.hosts[at].is_idle(&self.world) {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn short(id: Uuid) -> u128 {
    id.as_u128()
}
