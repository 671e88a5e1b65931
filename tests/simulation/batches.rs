//! Batches in the model: claim, begin, renew, release, rescue.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::decision::{Siblings, after_policy_error};
use reprieve::model::time::later;
use reprieve::model::{Deferral, RecoveryStatus, StreamMode};
use reprieve::store::{Begin, Begun, Candidate, Claim, ClaimRequest, Cursor, Ending};
use uuid::Uuid;

use super::faults::Fault;
use super::letter::{Credit, Letter};
use super::world::{Batch, World};

/// How long a generation's credit keeps other generations away.
pub const RESERVED_FOR: Duration = Duration::from_secs(60 * 60);
/// The calls of a policy that may fail on a row.
pub const MAX_POLICY_ERRORS: u32 = 3;

fn cursor(letter: &Letter) -> Cursor {
    Cursor { due_at: letter.due_at(), dead_lettered_at: letter.died_at, dead_letter_id: letter.id }
}

impl World {
    /// Takes due rows, in the order in which they fall due, that nobody has and whose streams nobody has.
    pub fn claim(&mut self, request: &ClaimRequest<'_>) -> Claim {
        let mut due: Vec<&Letter> =
            self.letters.iter().filter(|letter| self.is_free(letter, request.generation)).collect();
        due.retain(|letter| request.after.is_none_or(|after| cursor(letter) > after));
        due.sort_by_key(|letter| cursor(letter));
        let mut resume = due.get(request.max as usize - 1).map(|letter| cursor(letter));
        if request.whole_streams {
            (due, resume) = self.bring_along(due, request);
        }
        due.truncate(request.max as usize);
        let full = due.len() == request.max as usize;
        let claim = Claim {
            now: self.now,
            rows: due.iter().map(|letter| self.candidate(letter)).collect(),
            cursor: resume.or(request.after).or(Some(Cursor::FRONT)).filter(|_| full),
            crowded: false,
            unreadable: Vec::new(),
        };
        if !due.is_empty() {
            let batch = Batch {
                id: request.batch_id,
                generation: request.generation.to_owned(),
                recovering: false,
                ids: due.iter().map(|letter| letter.id).collect(),
                streams: due.iter().filter_map(|letter| self.stream(letter)).collect(),
                started_at: self.now,
                expires_at: later(self.now, request.lease),
            };
            self.batches.push(batch);
        }
        claim
    }

    /// The rows with those of their streams that come along, as far as there is room; and the place of the last row up to
    /// which all are among them.
    fn bring_along<'a>(
        &'a self,
        due: Vec<&'a Letter>,
        request: &ClaimRequest<'_>,
    ) -> (Vec<&'a Letter>, Option<Cursor>) {
        let (mut brought, mut resume, mut streams) = (Vec::<&Letter>::new(), None, HashSet::new());
        for letter in due {
            let room = request.max as usize - brought.len();
            if let Some(stream) = self.stream(letter).filter(|stream| streams.insert(*stream)) {
                let mut open: Vec<&Letter> = self.letters.iter().filter(|other| other.is_open()).collect();
                open.retain(|other| self.stream(other) == Some(stream));
                open.sort_by_key(|other| self.place(other));
                let is_due = |other: &Letter| self.is_free(other, request.generation);
                let waits = |other: &Letter| {
                    other.deferral == Some(Deferral::Stream) && !self.is_reserved(other, request.generation)
                };
                // What waits comes with the one that it waits for; the first of all waits for a held one.
                let brings = open.first().is_some_and(|first| is_due(first));
                brought
                    .extend(open.into_iter().take_while(|other| brings && (is_due(other) || waits(other))).take(room));
            }
            if !brought.iter().any(|other| other.id == letter.id) {
                if brought.len() == request.max as usize {
                    break;
                }
                brought.push(letter);
            }
            resume = Some(cursor(letter));
        }
        brought.sort_by_key(|letter| cursor(letter));
        (brought, resume)
    }

    fn is_free(&self, letter: &Letter, generation: &str) -> bool {
        let stream = self.stream(letter);
        let taken = |batch: &Batch| {
            batch.ids.contains(&letter.id) || stream.is_some_and(|stream| batch.streams.contains(&stream))
        };
        letter.is_open()
            && letter.due_at() <= self.now
            && (self.has(Fault::BatchesIgnoredByClaims) || !self.batches.iter().any(taken))
            && (self.has(Fault::ReservationsIgnored) || !self.is_reserved(letter, generation))
    }

    /// Whether there is something to claim.
    pub fn is_due(&self, generation: &str) -> bool {
        self.letters.iter().any(|letter| self.is_free(letter, generation))
    }

    /// Whether a credit keeps a row from hosts of a generation.
    pub fn is_reserved(&self, letter: &Letter, generation: &str) -> bool {
        let others = letter.credit.is_some_and(|credit| credit != Credit::Operator && credit.text() != generation);
        others && letter.credit_at.is_some_and(|granted| later(granted, RESERVED_FOR) > self.now)
    }

    fn candidate(&self, letter: &Letter) -> Candidate {
        let siblings = Siblings { superseded_by: self.newer(letter), predecessor: None };
        Candidate { entry: letter.entry(&self.messages[letter.message]), siblings }
    }

    /// Carries out what re-emits nothing; from then on the attempts of the others count.
    pub fn begin(&mut self, request: &Begin<'_>) -> Begun {
        let Some(at) = self.batches.iter().position(|batch| batch.id == request.batch_id && !batch.recovering) else {
            return Begun::Lost;
        };
        let ids: HashSet<Uuid> = self.batches[at].ids.iter().copied().collect();
        let (mut ended, mut out_of_the_way) = (Vec::new(), Vec::new());
        // Looked at once, before anything is changed.
        let stands =
            |id: Uuid| self.letter(id).is_some_and(|letter| letter.stands_in_the_way(request.streams.held_blocks));
        let endings: Vec<&Ending> = request
            .endings
            .iter()
            .filter(|ending| ids.contains(&ending.dead_letter_id) && ending.seen.predecessor.is_none_or(stands))
            .collect();
        for ending in endings.into_iter().filter(|ending| self.end(ending)) {
            ended.push(ending.dead_letter_id);
            let mode =
                ending.record.as_ref().and_then(|record| reprieve::recovery::record::answers(&record.ruling.rule));
            let passed = mode.is_some_and(|answers| answers.stream_mode == StreamMode::PerMessage);
            if ending.standing.status != RecoveryStatus::Pending || passed {
                out_of_the_way.push(ending.dead_letter_id);
            }
        }
        self.wake_behind(&out_of_the_way);
        let recover: Vec<Uuid> = request.recover.iter().copied().filter(|id| ids.contains(id)).collect();
        if recover.is_empty() {
            self.batches.remove(at);
        } else {
            let letters = recover.iter().filter_map(|id| self.letter(*id));
            self.batches[at].streams = letters.filter_map(|letter| self.stream(letter)).collect();
            self.batches[at].ids = recover;
            self.batches[at].recovering = !self.has(Fault::CountedAfterTheWork);
        }
        Begun::Done { ended }
    }

    fn end(&mut self, ending: &Ending) -> bool {
        let Some(letter) = self.letter_mut(ending.dead_letter_id) else { return false };
        let seen = &ending.seen;
        let changed = letter.next != seen.next_recovery_at || letter.credit.map(Credit::text) != seen.replay_credit;
        if !letter.is_open() || changed {
            return false;
        }
        letter.status = ending.standing.status;
        (letter.next, letter.deferral) = (ending.standing.next_recovery_at, ending.standing.deferral);
        letter.policy_errors = ending.policy_errors;
        letter.put_off_by = ending.policy_error_digest.as_ref().map(|digest| digest.parse().unwrap());
        if let Some(record) = &ending.record {
            self.record(ending.dead_letter_id, record);
        }
        true
    }

    /// Prolongs a batch.
    pub fn renew(&mut self, batch_id: Uuid, lease: Duration) {
        let until = later(self.now, lease);
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == batch_id) {
            batch.expires_at = until;
        }
    }

    /// Gives a batch back.
    pub fn release(&mut self, batch_id: Uuid) {
        self.batches.retain(|batch| batch.id != batch_id);
    }

    /// Dissolves the batches whose lease has ended.
    pub fn rescue(&mut self) {
        let now = self.now;
        if self.has(Fault::BatchesNeverRescued) {
            return;
        }
        let expired: Vec<Batch> = self.batches.extract_if(.., |batch| batch.expires_at <= now).collect();
        let mut held = Vec::new();
        let open = |letter: &&mut Letter| letter.status == RecoveryStatus::Pending;
        for batch in expired {
            for id in batch.ids {
                let forgets = self.has(Fault::AttemptsForgottenByRescue);
                let Some(letter) = self.letter_mut(id).filter(open) else { continue };
                if !batch.recovering {
                    count_policy_error(letter, now);
                    held.extend((letter.status == RecoveryStatus::HoldForReview).then_some(id));
                } else if !forgets {
                    count_attempt(letter, batch.started_at, now);
                }
            }
        }
        self.wake_behind(&held);
    }
}

/// A credit that was there when the batch began pays for the attempt.
fn count_attempt(letter: &mut Letter, started_at: Timestamp, now: Timestamp) {
    let granted_since = letter.credit_at.is_some_and(|granted| granted > started_at);
    letter.last = Some(now);
    letter.attempts += i32::from(letter.credit.is_none() || granted_since);
    if !granted_since {
        (letter.credit, letter.credit_at) = (None, None);
    }
}

fn count_policy_error(letter: &mut Letter, now: Timestamp) {
    letter.policy_errors += 1;
    let standing = after_policy_error(letter.policy_errors, MAX_POLICY_ERRORS, now);
    letter.status = standing.status;
    (letter.next, letter.deferral) = (standing.next_recovery_at, standing.deferral);
}
