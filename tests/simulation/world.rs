//! The tables of a store, in memory. Every method that changes them is one transaction.

use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::{Disposition, RecoveryStatus};
use reprieve::store::{DecisionRecord, Outcome, StreamTerms};
use uuid::Uuid;

use super::faults::Fault;
use super::letter::{Letter, Message, Place};
use super::random::Random;

/// How long a row waits for another at most, and rests when the policy skips it.
pub const SCAN_INTERVAL: Duration = Duration::from_secs(600);

/// A row of `wh_recovery_batches`.
#[derive(Debug, Clone)]
pub struct Batch {
    pub id: Uuid,
    pub generation: String,
    pub recovering: bool,
    pub ids: Vec<Uuid>,
    pub streams: Vec<u8>,
    pub started_at: Timestamp,
    pub expires_at: Timestamp,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct World {
    pub now: Timestamp,
    pub messages: Vec<Message>,
    /// Whether the source table holds each message.
    pub in_table: Vec<bool>,
    /// Whether a consumer is done with each message.
    pub done: Vec<bool>,
    /// In the order of their ids, which is that of their deaths.
    pub letters: Vec<Letter>,
    pub batches: Vec<Batch>,
    /// The dead letters that were re-emitted, in their order.
    pub arrivals: Vec<Uuid>,
    /// Whether the source table refuses those messages that it can refuse.
    pub refuses: bool,
    pub terms: StreamTerms,
    /// What is wrong with this store.
    pub fault: Option<Fault>,
}

impl World {
    /// With every message in its table.
    pub fn new(random: &mut Random, fault: Option<Fault>) -> Self {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        let messages: Vec<_> = (0..3 + random.below(5)).map(|_| Message::at_random(random, now)).collect();
        Self {
            now,
            in_table: vec![true; messages.len()],
            done: vec![false; messages.len()],
            messages,
            letters: Vec::new(),
            batches: Vec::new(),
            arrivals: Vec::new(),
            refuses: false,
            terms: StreamTerms { held_blocks: random.one_in(3), wait: SCAN_INTERVAL },
            fault,
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn letter(&self, id: Uuid) -> Option<&Letter> {
        self.letters.binary_search_by_key(&id, |letter| letter.id).ok().map(|at| &self.letters[at])
    }

    pub fn letter_mut(&mut self, id: Uuid) -> Option<&mut Letter> {
        self.letters.binary_search_by_key(&id, |letter| letter.id).ok().map(|at| &mut self.letters[at])
    }

    /// The newest death of the same message, if that is another one.
    pub fn newer(&self, letter: &Letter) -> Option<Uuid> {
        let deaths = self.letters.iter().filter(|other| other.message == letter.message);
        let newest = deaths.max_by_key(|other| other.incarnation)?;
        (newest.incarnation > letter.incarnation).then_some(newest.id)
    }

    pub fn stream(&self, letter: &Letter) -> Option<u8> {
        self.messages[letter.message].stream
    }

    pub fn place(&self, letter: &Letter) -> Place {
        (self.messages[letter.message].made_at, letter.message, letter.id)
    }

    /// Whether a row is in a batch whose lease has not ended.
    pub fn is_in_live_batch(&self, id: Uuid) -> bool {
        self.batches.iter().any(|batch| batch.expires_at > self.now && batch.ids.contains(&id))
    }

    /// Moves a message from its table to the dead letters, under a generation.
    pub fn die(&mut self, message: usize, generation: u8) {
        if !std::mem::replace(&mut self.in_table[message], false) {
            return;
        }
        let earlier = self.letters.iter().filter(|letter| letter.message == message);
        let same =
            earlier.clone().filter(|letter| letter.generation == generation && !self.has(Fault::NothingInherited));
        let attempts = same.clone().map(|letter| letter.attempts).max().unwrap_or(0);
        let letter = Letter {
            id: Uuid::from_u128(self.letters.last().map_or(0, |letter| letter.id.as_u128()) + 1),
            message,
            incarnation: earlier.clone().map(|letter| letter.incarnation).max().unwrap_or(0) + 1,
            generation,
            died_at: self.now,
            status: RecoveryStatus::Pending,
            disposition: Disposition::None,
            attempts,
            last: same.filter_map(|letter| letter.last).max(),
            next: None,
            retried: if self.has(Fault::NothingInherited) { 0 } else { earlier.fold(0, |all, one| all | one.retried) },
            credit: None,
            credit_at: None,
            deferral: None,
            policy_errors: 0,
            put_off_by: None,
            mode_said: None,
        };
        self.letters.push(letter);
    }

    /// Puts the message of a dead letter back into its table.
    pub fn re_emit(&mut self, id: Uuid) -> Outcome {
        let Some(letter) = self.letter(id).copied() else { return Outcome::Lost };
        if letter.status != RecoveryStatus::Pending || letter.is_kept() {
            return Outcome::Lost;
        }
        if self.newer(&letter).is_some() && !self.has(Fault::OlderDeathsReEmitted) {
            return Outcome::Superseded;
        }
        if self.refuses && self.messages[letter.message].refusable {
            return Outcome::Failed("refused".to_owned());
        }
        if self.in_table[letter.message] {
            let taken = self.has(Fault::CollisionsCalledRecovered);
            return if taken { Outcome::Recovered } else { Outcome::SourcePresent };
        }
        self.in_table[letter.message] = true;
        self.arrivals.push(id);
        Outcome::Recovered
    }

    /// Writes down what was decided about a row.
    pub fn record(&mut self, id: Uuid, record: &DecisionRecord) {
        let said = reprieve::recovery::record::answers(&record.ruling.rule).map(|answers| answers.stream_mode);
        if let Some(letter) = self.letter_mut(id) {
            letter.mode_said = said.or(letter.mode_said);
        }
    }
}
