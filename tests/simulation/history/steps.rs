//! What can happen.

use std::time::Duration;

use reprieve::model::RecoveryStatus;
use reprieve::store::OperatorVerb;
use uuid::Uuid;

use super::{History, short};
use crate::simulation::hosts::{Done, Mishap};
use crate::simulation::invariants::Violation;

impl History {
    /// Has one thing happen.
    pub(super) fn any_step(&mut self) -> Result<(), Violation> {
        // No two steps at the same time, as in a database.
        self.world.now += Duration::from_millis(1 + self.random.below(2000) as u64);
        match self.random.below(100) {
            0..55 => self.host_steps(),
            55..57 => self.host_restarts(),
            57..59 => self.host_renews(),
            59..68 => self.time_passes(),
            68..89 => self.message_is_consumed(),
            89..90 => self.message_appears(),
            90..93 => self.operator_speaks(),
            93..96 => self.application_speaks(),
            96..97 => self.deploys(),
            97..98 => self.swaps_the_policy(),
            _ => self.table_changes_its_mind(),
        }
    }

    fn host_steps(&mut self) -> Result<(), Violation> {
        let at = self.random.below(self.hosts.len());
        let mishap = match self.random.below(40) {
            0 => Some(Mishap::DiesBefore),
            1 => Some(Mishap::DiesAfter),
            2 => Some(Mishap::Refused),
            3 => Some(Mishap::AnswerLost),
            _ => None,
        };
        self.counts.mishaps += u64::from(mishap.is_some());
        let max = 1 + self.random.below(5) as u32;
        self.host_takes(at, max, mishap)
    }

    fn host_restarts(&mut self) -> Result<(), Violation> {
        let at = self.random.below(self.hosts.len());
        self.hosts[at].restart(self.deployed);
        self.counts.mishaps += 1;
        let generation = self.deployed.generation;
        self.after(&Done::Something, || format!("host {} is killed and starts as g{generation}", at + 1))
    }

    fn host_renews(&mut self) -> Result<(), Violation> {
        let at = self.random.below(self.hosts.len());
        self.hosts[at].renew(&mut self.world);
        self.after(&Done::Something, || format!("host {} renews its lease", at + 1))
    }

    fn time_passes(&mut self) -> Result<(), Violation> {
        let seconds = [5, 30, 70, 700, 4000][self.random.below(5)];
        self.world.now += Duration::from_secs(seconds);
        self.after(&Done::Something, || format!("{seconds} s pass"))
    }

    fn message_is_consumed(&mut self) -> Result<(), Violation> {
        let message = self.random.below(self.world.messages.len());
        if self.random.one_in(12) {
            let was = std::mem::replace(&mut self.world.in_table[message], false);
            self.world.done[message] |= was;
            return self.after(&Done::Something, || format!("message {message} is done: {was}"));
        }
        // Consumers of the former build run on for a while.
        let generation = self.deployed.generation - u8::from(self.deployed.generation > 1 && self.random.one_in(5));
        let deaths = self.world.letters.len();
        self.world.die(message, generation);
        self.counts.deaths += (self.world.letters.len() - deaths) as u64;
        self.after(&Done::Something, || format!("message {message} dies under g{generation}"))
    }

    fn message_appears(&mut self) -> Result<(), Violation> {
        let message = self.random.below(self.world.messages.len());
        self.world.in_table[message] = true;
        self.after(&Done::Something, || format!("somebody puts message {message} into its table"))
    }

    fn any_letter(&mut self) -> Option<Uuid> {
        let letters = self.world.letters.len();
        // Mostly a late one.
        let back = self.random.below(letters.max(1)).min(self.random.below(letters.max(1)));
        self.world.letters.iter().rev().nth(back).map(|letter| letter.id)
    }

    fn operator_speaks(&mut self) -> Result<(), Violation> {
        use OperatorVerb::{GiveUp, Hold, HoldIndefinitely, Retry};
        let verb = [Retry, Retry, Retry, Hold, HoldIndefinitely, GiveUp][self.random.below(6)];
        let Some(id) = self.any_letter() else { return Ok(()) };
        let changed = self.world.operate(verb, id);
        self.after(&Done::Something, || format!("an operator says {verb:?} of {}: {changed}", short(id)))
    }

    fn application_speaks(&mut self) -> Result<(), Violation> {
        let Some(id) = self.any_letter() else { return Ok(()) };
        let (verb, done) = match self.random.below(5) {
            0 => {
                self.world.mark(id, RecoveryStatus::HoldForReview);
                ("hold", Done::Something)
            }
            1 => {
                self.world.mark(id, RecoveryStatus::PermanentlyFailed);
                ("give up", Done::Something)
            }
            2 => {
                let at = self.world.now + Duration::from_secs(self.random.below(4000) as u64);
                self.world.schedule(id, at);
                ("schedule", Done::Something)
            }
            3 => {
                self.world.ask_for_retry(id);
                ("ask for a retry", Done::Something)
            }
            _ => {
                self.world.recover(id);
                ("recover", Done::BroughtBack)
            }
        };
        self.after(&done, || format!("an application calls {verb} of {}", short(id)))
    }

    fn deploys(&mut self) -> Result<(), Violation> {
        self.deployed.generation += 1;
        let at = self.random.below(self.hosts.len());
        self.hosts[at].restart(self.deployed);
        let generation = self.deployed.generation;
        self.after(&Done::Something, || format!("g{generation} is deployed, to host {}", at + 1))
    }

    fn swaps_the_policy(&mut self) -> Result<(), Violation> {
        self.deployed.policy += 1;
        let policy = self.deployed.policy;
        self.after(&Done::Something, || format!("version {policy} of the policy comes"))
    }

    fn table_changes_its_mind(&mut self) -> Result<(), Violation> {
        self.world.refuses = !self.world.refuses;
        let refuses = self.world.refuses;
        self.after(&Done::Something, || format!("the table refuses some messages: {refuses}"))
    }
}
