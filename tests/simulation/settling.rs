//! Settling in the model: re-emitting the rows of a batch and saying what became of each.

use std::collections::HashSet;

use reprieve::model::decision::Standing;
use reprieve::model::time::later;
use reprieve::model::{Deferral, Disposition, RecoveryStatus};
use reprieve::store::{Attempt, Outcome, Settle, Settled, StreamOrder};
use uuid::Uuid;

use super::faults::Fault;
use super::letter::{Credit, Letter};
use super::world::World;

const HELD: Standing = Standing { status: RecoveryStatus::HoldForReview, next_recovery_at: None, deferral: None };

impl World {
    /// Re-emits the rows of a batch and dissolves it.
    pub fn settle(&mut self, request: &Settle<'_>) -> Vec<Settled> {
        let early = self.has(Fault::CountedAfterTheWork);
        let batch = self.batches.iter().position(|batch| batch.id == request.batch_id && (batch.recovering || early));
        let batch = batch.map(|at| self.batches.remove(at));
        let all = || request.attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
        let (ids, streams): (Vec<Uuid>, _) = match batch {
            Some(batch) => (batch.ids, batch.streams),
            None if self.has(Fault::LostBatchesSettled) => (all(), Vec::new()),
            None => (Vec::new(), Vec::new()),
        };
        let mut stopped: HashSet<u8> = HashSet::new();
        let mut kept_back = Vec::new();
        let mut settled = Vec::new();
        for attempt in request.attempts {
            let letter = self.letter(attempt.dead_letter_id);
            let (open, stream) = (letter.is_some_and(Letter::is_open), letter.and_then(|letter| self.stream(letter)));
            let behind = attempt.in_order && open && stream.is_some_and(|stream| stopped.contains(&stream));
            let outcome = if !ids.contains(&attempt.dead_letter_id) {
                Outcome::Lost
            } else if behind && !self.has(Fault::FailedRowsPassed) {
                kept_back.push(attempt.dead_letter_id);
                Outcome::Blocked
            } else {
                let (outcome, stands) = self.settle_row(attempt);
                let passes = outcome == Outcome::Superseded || !attempt.in_order;
                if !passes && self.is_in_the_way(attempt.dead_letter_id, stands, request.streams.held_blocks) {
                    stopped.extend(stream);
                }
                outcome
            };
            settled.push(Settled { dead_letter_id: attempt.dead_letter_id, outcome });
        }
        self.keep_back(&kept_back, request);
        let moving: Vec<u8> = streams.into_iter().filter(|stream| !stopped.contains(stream)).collect();
        self.wake(&moving);
        settled
    }

    /// What became of an attempt, and the status of a row that was not inserted and that nobody else has settled.
    fn settle_row(&mut self, attempt: &Attempt) -> (Outcome, Option<RecoveryStatus>) {
        let id = attempt.dead_letter_id;
        let outcome = self.re_emit(id);
        let (now, forgets, free) = (self.now, self.has(Fault::FailuresNotCounted), self.has(Fault::CreditsKept));
        let vanishes = self.has(Fault::FailedRowsVanish);
        let Some(letter) = self.letter_mut(id) else { return (Outcome::Lost, None) };
        let mut stands = None;
        match &outcome {
            Outcome::Lost | Outcome::Blocked | Outcome::Unsettled(_) => return (Outcome::Lost, None),
            Outcome::Recovered => {
                count(letter, attempt);
                letter.last = Some(now);
                letter.recovered();
            }
            Outcome::Superseded => {
                letter.status = RecoveryStatus::HoldForReview;
                (letter.next, letter.deferral) = (None, None);
                (letter.policy_errors, letter.put_off_by) = (0, None);
            }
            Outcome::SourcePresent | Outcome::Gone | Outcome::Failed(_) => {
                let granted = letter.credit.map(Credit::text) != attempt.credit;
                let now_due = Standing { status: RecoveryStatus::Pending, next_recovery_at: Some(now), deferral: None };
                let standing = match (matches!(outcome, Outcome::Failed(_)), granted) {
                    (false, _) => HELD,
                    (true, true) => now_due,
                    (true, false) => attempt.on_failure,
                };
                if !granted && !free || standing.status != RecoveryStatus::Pending {
                    (letter.credit, letter.credit_at) = (None, None);
                }
                if !forgets {
                    count(letter, attempt);
                }
                letter.last = Some(now);
                letter.status = standing.status;
                (letter.next, letter.deferral) = (standing.next_recovery_at, standing.deferral);
                stands = Some(standing.status);
            }
        }
        self.record(id, &attempt.record);
        if vanishes && matches!(outcome, Outcome::Failed(_)) {
            self.letters.retain(|letter| letter.id != id);
        }
        (outcome, stands)
    }

    fn is_in_the_way(&self, id: Uuid, stands: Option<RecoveryStatus>, held_blocks: bool) -> bool {
        match stands {
            Some(RecoveryStatus::Pending | RecoveryStatus::Recovering) => true,
            Some(RecoveryStatus::HoldForReview) => held_blocks,
            Some(RecoveryStatus::Recovered | RecoveryStatus::PermanentlyFailed) => false,
            None => held_blocks && self.letter(id).is_some_and(Letter::is_held),
        }
    }

    fn keep_back(&mut self, kept_back: &[Uuid], request: &Settle<'_>) {
        let standing: Vec<Uuid> = request.attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
        let held_blocks = request.streams.held_blocks;
        let order = StreamOrder { ids: kept_back, passed: &[], standing: &standing, held_blocks };
        let longest = later(self.now, request.streams.wait);
        for row in self.stream_order(&order) {
            let until = row
                .predecessor
                .map_or(self.now, |earlier| earlier.due_at.map_or(longest, |due_at| due_at.clamp(self.now, longest)));
            let letter = self.letter_mut(row.dead_letter_id).unwrap();
            (letter.next, letter.deferral) = (Some(until), Some(Deferral::Stream));
            (letter.policy_errors, letter.put_off_by) = (0, None);
            let attempt = request.attempts.iter().find(|attempt| attempt.dead_letter_id == row.dead_letter_id);
            self.record(row.dead_letter_id, &attempt.unwrap().record);
        }
    }
}

/// An attempt counts unless a credit pays for it.
fn count(letter: &mut Letter, attempt: &Attempt) {
    letter.attempts += i32::from(attempt.credit.is_none());
    (letter.policy_errors, letter.put_off_by) = (0, None);
}

impl Letter {
    /// Settles a row that is back in its table.
    pub fn recovered(&mut self) {
        self.status = RecoveryStatus::Recovered;
        (self.next, self.deferral) = (None, None);
        self.disposition = Disposition::None;
        (self.credit, self.credit_at) = (None, None);
        self.retried |= 1 << self.generation;
    }
}
