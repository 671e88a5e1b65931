//! What operators, applications, builds and policies say in the model.

use jiff::Timestamp;
use reprieve::model::{Deferral, Disposition, RecoveryStatus};
use reprieve::store::{OperatorVerb, Outcome};
use uuid::Uuid;

use super::faults::Fault;
use super::letter::{Credit, Letter};
use super::world::World;

impl World {
    /// An operator's verb; whether it changed the row.
    pub fn operate(&mut self, verb: OperatorVerb, id: Uuid) -> bool {
        let (now, busy) = (self.now, self.is_in_live_batch(id));
        let Some(letter) = self.letter_mut(id) else { return false };
        if busy || letter.status == RecoveryStatus::Recovered {
            return false;
        }
        let (status, disposition) = match verb {
            OperatorVerb::Retry => {
                letter.retry(now);
                return true;
            }
            OperatorVerb::Hold => (RecoveryStatus::HoldForReview, Disposition::None),
            OperatorVerb::HoldIndefinitely => (RecoveryStatus::HoldForReview, Disposition::HoldIndefinitely),
            OperatorVerb::GiveUp => (RecoveryStatus::PermanentlyFailed, Disposition::MarkPermanentlyFailed),
        };
        (letter.status, letter.disposition) = (status, disposition);
        (letter.next, letter.deferral) = (None, None);
        self.wake_behind(&[id]);
        true
    }

    /// An application writes by SQL that it wants a retry.
    pub fn ask_for_retry(&mut self, id: Uuid) {
        if let Some(letter) = self.letter_mut(id).filter(|letter| letter.status != RecoveryStatus::Recovered) {
            letter.disposition = Disposition::RetryNow;
        }
    }

    /// Takes those wishes.
    pub fn take_operator_retries(&mut self) {
        let now = self.now;
        let asked = |letter: &&Letter| {
            letter.disposition == Disposition::RetryNow && letter.status != RecoveryStatus::Recovered
        };
        let asked: Vec<Uuid> = self.letters.iter().filter(asked).map(|letter| letter.id).collect();
        for id in asked.into_iter().filter(|id| !self.is_in_live_batch(*id)).collect::<Vec<_>>() {
            self.letter_mut(id).unwrap().retry(now);
        }
    }

    /// An application holds a row or gives it up.
    pub fn mark(&mut self, id: Uuid, status: RecoveryStatus) {
        if let Some(letter) = self.letter_mut(id).filter(|letter| letter.status != RecoveryStatus::Recovered) {
            letter.status = status;
            (letter.next, letter.deferral) = (None, None);
        }
        self.wake_behind(&[id]);
    }

    /// An application puts a row off.
    pub fn schedule(&mut self, id: Uuid, at: Timestamp) {
        if let Some(letter) = self.letter_mut(id).filter(|letter| letter.status != RecoveryStatus::Recovered) {
            letter.status = RecoveryStatus::Pending;
            (letter.next, letter.deferral) = (Some(at), Some(Deferral::Operator));
        }
    }

    /// An application recovers a row itself, in whatever order.
    pub fn recover(&mut self, id: Uuid) {
        let pending = self.letter(id).is_some_and(|letter| letter.status == RecoveryStatus::Pending);
        if !pending || self.is_in_live_batch(id) {
            return;
        }
        let (outcome, now) = (self.re_emit(id), self.now);
        let letter = self.letter_mut(id).unwrap();
        let wakes = match outcome {
            Outcome::Lost | Outcome::Blocked | Outcome::Unsettled(_) => return,
            Outcome::Superseded => {
                letter.status = RecoveryStatus::HoldForReview;
                (letter.next, letter.deferral) = (None, None);
                true
            }
            Outcome::Failed(_) => {
                (letter.last, letter.attempts) = (Some(now), letter.attempts + 1);
                false
            }
            Outcome::Recovered => {
                (letter.last, letter.attempts) = (Some(now), letter.attempts + 1);
                letter.recovered();
                true
            }
            Outcome::SourcePresent | Outcome::Gone => {
                (letter.last, letter.attempts) = (Some(now), letter.attempts + 1);
                letter.status = RecoveryStatus::HoldForReview;
                (letter.next, letter.deferral) = (None, None);
                (letter.credit, letter.credit_at) = (None, None);
                true
            }
        };
        if wakes {
            self.wake_behind(&[id]);
        }
    }

    /// Grants a generation's free attempts.
    pub fn sweep(&mut self, generation: u8) {
        let (now, again) = (self.now, self.has(Fault::SweptAgain));
        let live: Vec<bool> = self.letters.iter().map(|letter| self.is_in_live_batch(letter.id)).collect();
        for (letter, live) in self.letters.iter_mut().zip(live) {
            let settled = [RecoveryStatus::Recovered, RecoveryStatus::PermanentlyFailed].contains(&letter.status);
            let reached = !settled && letter.disposition != Disposition::HoldIndefinitely;
            if !reached || letter.was_retried_on(generation) && !again {
                continue;
            }
            let own = letter.generation == generation;
            letter.retried |= 1 << generation;
            if !own {
                (letter.credit, letter.credit_at) = (Some(Credit::Generation(generation)), Some(now));
            }
            let stays = live || own && letter.status == RecoveryStatus::HoldForReview;
            if !stays {
                letter.status = RecoveryStatus::Pending;
                (letter.next, letter.deferral) = (Some(now), None);
            }
        }
    }

    /// Makes those due that another version of the policy put off.
    pub fn clear_deferrals(&mut self, version: u32, unknown: bool) {
        let now = self.now;
        for letter in self.letters.iter_mut().filter(|letter| letter.is_open()) {
            let put_off = matches!(letter.deferral, Some(Deferral::Skip | Deferral::PolicyError));
            if put_off && letter.put_off_by.map_or(unknown, |by| by != version) {
                (letter.next, letter.deferral) = (Some(now), None);
            }
        }
    }
}

impl Letter {
    fn retry(&mut self, now: Timestamp) {
        self.status = RecoveryStatus::Pending;
        self.disposition = Disposition::None;
        (self.next, self.deferral) = (Some(now), None);
        (self.credit, self.credit_at) = (Some(Credit::Operator), Some(now));
    }
}
