//! Messages and their dead letters as the model keeps them: small, and copied whole.

use std::time::Duration;

use jiff::Timestamp;
use reprieve::model::dead_letter::OPERATOR_CREDIT;
use reprieve::model::{
    DeadLetter, Deferral, Disposition, FailureReason, RecoveryPolicy, RecoveryStatus, SourceTable, StreamMode,
};
use uuid::Uuid;

use super::random::Random;

/// What does not change about a message.
#[derive(Debug, Clone)]
pub struct Message {
    /// `None`: no stream.
    pub stream: Option<u8>,
    pub made_at: Timestamp,
    /// Whether the source table refuses it while it refuses.
    pub refusable: bool,
    pub policy: RecoveryPolicy,
    pub mode: StreamMode,
    /// Whether every other version of the policy does not want it tried.
    pub skipped: bool,
    /// Whether every third version of the policy fails on it.
    pub unanswered: bool,
}

impl Message {
    pub fn at_random(random: &mut Random, start: Timestamp) -> Self {
        let cooldown = [0, 1, 60, 3600][random.below(4)];
        Self {
            stream: [Some(0), Some(0), Some(1), None][random.below(4)],
            // Some are as old as each other, and go by their ids.
            made_at: start + Duration::from_secs(random.below(4) as u64),
            refusable: random.one_in(2),
            policy: RecoveryPolicy {
                name: "simulated".to_owned(),
                max_recovery_attempts: random.below(4) as u32,
                cooldown: Duration::from_secs(cooldown),
                hold_for_review_after_exhaustion: random.one_in(2),
                delay_first_attempt: random.one_in(4),
            },
            mode: if random.one_in(4) { StreamMode::PerMessage } else { StreamMode::TailAware },
            skipped: random.one_in(5),
            unanswered: random.one_in(5),
        }
    }
}

/// A free attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credit {
    Operator,
    Generation(u8),
}

impl Credit {
    pub fn text(self) -> String {
        match self {
            Self::Operator => OPERATOR_CREDIT.to_owned(),
            Self::Generation(generation) => tag(generation),
        }
    }

    pub fn read(text: &str) -> Self {
        text.strip_prefix('g').map_or(Self::Operator, |number| Self::Generation(number.parse().unwrap()))
    }
}

/// The tag of a generation.
pub fn tag(generation: u8) -> String {
    format!("g{generation}")
}

/// A row of `wh_dead_letters`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    pub id: Uuid,
    pub message: usize,
    pub incarnation: i32,
    pub generation: u8,
    pub died_at: Timestamp,
    pub status: RecoveryStatus,
    pub disposition: Disposition,
    pub attempts: i32,
    pub last: Option<Timestamp>,
    pub next: Option<Timestamp>,
    /// The generations that have replayed it, as a set of bits.
    pub retried: u64,
    pub credit: Option<Credit>,
    pub credit_at: Option<Timestamp>,
    pub deferral: Option<Deferral>,
    pub policy_errors: i32,
    /// The version of the policy that failed on it or skipped it.
    pub put_off_by: Option<u32>,
    /// What the newest recorded answer said.
    pub mode_said: Option<StreamMode>,
}

/// A place in a stream: the message's age, the message, the dead letter.
pub type Place = (Timestamp, usize, Uuid);

impl Letter {
    pub fn is_open(&self) -> bool {
        self.status == RecoveryStatus::Pending && !self.is_kept()
    }

    /// Whether an operator's word keeps hosts from it.
    pub fn is_kept(&self) -> bool {
        matches!(self.disposition, Disposition::HoldIndefinitely | Disposition::MarkPermanentlyFailed)
    }

    pub fn is_held(&self) -> bool {
        let held = self.status == RecoveryStatus::HoldForReview || self.disposition == Disposition::HoldIndefinitely;
        let over = [RecoveryStatus::Recovered, RecoveryStatus::PermanentlyFailed].contains(&self.status);
        held && !over && self.disposition != Disposition::MarkPermanentlyFailed
    }

    pub fn stands_in_the_way(&self, held_blocks: bool) -> bool {
        self.is_open() || held_blocks && self.is_held()
    }

    pub fn due_at(&self) -> Timestamp {
        self.next.unwrap_or(self.died_at)
    }

    pub fn was_retried_on(&self, generation: u8) -> bool {
        self.retried >> generation & 1 == 1
    }

    /// The row as a claim gives it.
    pub fn entry(&self, message: &Message) -> DeadLetter {
        DeadLetter {
            dead_letter_id: self.id,
            source_table: SourceTable::Outbox,
            source_id: Uuid::from_u128(self.message as u128),
            stream_id: message.stream.map(|stream| Uuid::from_u128(u128::from(stream) + 1)),
            message_type: String::new(),
            destination: None,
            perspective_name: None,
            metadata: String::new(),
            failure_reason: FailureReason(99),
            error_text: None,
            attempts_when_dlq: 0,
            dead_lettered_at: self.died_at,
            dead_lettered_by: None,
            recovery_status: self.status,
            recovery_attempts: self.attempts,
            last_recovery_at: self.last,
            next_recovery_at: self.next,
            recovered_at: None,
            generation: tag(self.generation),
            retried_on_generations: Vec::new(),
            operator_disposition: self.disposition,
            operator_notes: None,
            operator_actor: None,
            error_fingerprint: None,
            error_fingerprint_version: None,
            source_created_at: Some(message.made_at),
            source_position: None,
            incarnation: self.incarnation,
            replay_credit: self.credit.map(Credit::text),
            replay_credit_at: self.credit_at,
            deferral: self.deferral,
            policy_errors: self.policy_errors,
            policy_error_digest: self.put_off_by.map(|version| version.to_string()),
            status_note: None,
        }
    }
}
