//! Settling the attempts of a batch, and finding the row that the database refuses to settle.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use uuid::Uuid;

use super::planned::Planned;
use super::scan::Scanner;
use crate::model::{RecoveryStatus, SourceTable};
use crate::store::{Attempt, Outcome, Settle, Settled, Split, StoreError, StreamTerms};

/// How often settling is tried again after a fault of the infrastructure, within a few seconds.
const SETTLE_RETRIES: usize = 5;

/// What is to be settled.
pub(super) struct Settling<'a> {
    pub scanner: &'a Scanner,
    pub batch_id: Uuid,
    pub attempts: &'a [Attempt],
    /// The rows of the attempts, and others.
    pub rows: &'a [Planned],
    pub streams: StreamTerms,
}

type StreamKey<'a> = (SourceTable, Uuid, &'a str);

/// Attempts in a batch of their own.
struct Part {
    batch_id: Uuid,
    attempts: Vec<Attempt>,
}

/// What came of the parts so far.
struct Apart<'a> {
    settling: &'a Settling<'a>,
    keys: HashMap<Uuid, StreamKey<'a>>,
    /// Streams of which a row stays that is in the way.
    stopped: HashSet<StreamKey<'a>>,
    settled: Vec<Settled>,
    /// What is left to be done, the next one last.
    parts: Vec<Part>,
    /// When what is left was last prolonged.
    renewed: Instant,
}

impl Settling<'_> {
    /// Settles them. What the database refuses is halved, left part first, each part a batch of its own, until the row
    /// stands alone that it is about. That one fails for it; if it may not fail either, it stays in its batch until the
    /// lease ends. Rows behind one that stays in the way are given back.
    pub(super) async fn settle(&self) -> Result<Vec<Settled>, StoreError> {
        match self.in_the_end(self.batch_id, self.attempts, None).await {
            Err(StoreError::Database { problem, .. }) => self.apart(problem).await,
            settled => settled,
        }
    }

    /// Settles, again after a fault of the infrastructure: the attempt has been counted, and a batch row that still
    /// stands proves that nothing was re-emitted.
    async fn in_the_end(
        &self,
        batch_id: Uuid,
        attempts: &[Attempt],
        refusal: Option<&str>,
    ) -> Result<Vec<Settled>, StoreError> {
        let Self { scanner, streams, .. } = *self;
        let request = Settle { batch_id, attempts, streams, refusal, now: scanner.now };
        let delays = ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(Duration::from_millis(100))
            .with_max_times(SETTLE_RETRIES);
        (|| scanner.store.settle(&request))
            .retry(delays)
            .when(|error| error.is_transient() && !scanner.shutdown.is_cancelled())
            .notify(|error, wait| tracing::warn!(%batch_id, %error, ?wait, "settling is tried again"))
            .await
    }

    async fn apart(&self, problem: String) -> Result<Vec<Settled>, StoreError> {
        let keys = self.rows.iter().map(|row| &row.entry);
        let keys = keys.filter_map(|entry| Some((entry.dead_letter_id, entry.stream_key()?))).collect();
        let mut apart = Apart {
            settling: self,
            keys,
            stopped: HashSet::new(),
            settled: Vec::new(),
            parts: Vec::new(),
            renewed: Instant::now(),
        };
        let whole = Part { batch_id: self.batch_id, attempts: self.attempts.to_vec() };
        let mut done = apart.refused(whole, problem).await;
        while let (Ok(()), Some(part)) = (&done, apart.parts.pop()) {
            let batch_id = part.batch_id;
            done = apart.part(part).await;
            if done.is_err() {
                self.scanner.abandon(batch_id).await;
            }
        }
        if let Err(error) = done {
            for part in apart.parts {
                self.scanner.abandon(part.batch_id).await;
            }
            return Err(error);
        }
        Ok(apart.settled)
    }
}

impl Apart<'_> {
    async fn part(&mut self, part: Part) -> Result<(), StoreError> {
        let Some(part) = self.without_those_behind(part).await? else { return Ok(()) };
        self.renew(&part).await?;
        match self.settling.in_the_end(part.batch_id, &part.attempts, None).await {
            Ok(settled) => {
                self.settled(settled, &part.attempts);
                Ok(())
            }
            Err(StoreError::Database { problem, .. }) => self.refused(part, problem).await,
            Err(error) => Err(error),
        }
    }

    /// Prolongs a part that is about to be settled, and now and then those that wait for their turn.
    async fn renew(&mut self, part: &Part) -> Result<(), StoreError> {
        let Scanner { store, options, now, .. } = self.settling.scanner;
        let waiting = if self.renewed.elapsed() < options.lease / 3 { &[] } else { self.parts.as_slice() };
        for part in waiting.iter().chain([part]) {
            store.renew(part.batch_id, options.lease, *now).await?;
        }
        if !waiting.is_empty() {
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// Halves what was refused, or makes it fail when it is one row.
    async fn refused(&mut self, mut part: Part, problem: String) -> Result<(), StoreError> {
        if part.attempts.len() > 1 {
            let right = part.attempts.split_off(part.attempts.len() / 2);
            let right = self.split(&part, right).await?;
            self.parts.extend([right, part]);
            return Ok(());
        }
        match self.settling.in_the_end(part.batch_id, &part.attempts, Some(&problem)).await {
            Ok(settled) => self.settled(settled, &part.attempts),
            Err(StoreError::Database { .. }) => {
                let unsettled = |attempt: &Attempt| Settled {
                    dead_letter_id: attempt.dead_letter_id,
                    outcome: Outcome::Unsettled(problem.clone()),
                };
                self.settled(part.attempts.iter().map(unsettled).collect(), &part.attempts);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The part without rows that stand behind one that stays in the way: these are given back, to be decided anew.
    async fn without_those_behind(&mut self, part: Part) -> Result<Option<Part>, StoreError> {
        let Part { batch_id, attempts } = part;
        let (behind, going): (Vec<_>, Vec<_>) = attempts.into_iter().partition(|attempt| self.is_behind(attempt));
        let going = Part { batch_id, attempts: going };
        if behind.is_empty() {
            return Ok(Some(going));
        }
        let blocked = |attempt: &Attempt| Settled { dead_letter_id: attempt.dead_letter_id, outcome: Outcome::Blocked };
        self.settled.extend(behind.iter().map(blocked));
        if going.attempts.is_empty() {
            self.settling.scanner.store.release(batch_id).await?;
            return Ok(None);
        }
        let given_back = self.split(&going, behind).await?;
        self.settling.scanner.store.release(given_back.batch_id).await?;
        Ok(Some(going))
    }

    fn is_behind(&self, attempt: &Attempt) -> bool {
        attempt.in_order && self.keys.get(&attempt.dead_letter_id).is_some_and(|key| self.stopped.contains(key))
    }

    /// Moves attempts that are no longer in a part into a batch of their own.
    async fn split(&self, part: &Part, moved: Vec<Attempt>) -> Result<Part, StoreError> {
        let ids = |attempts: &[Attempt]| attempts.iter().map(|attempt| attempt.dead_letter_id).collect::<Vec<_>>();
        let new = Part { batch_id: Uuid::now_v7(), attempts: moved };
        let request = Split {
            batch_id: part.batch_id,
            keep: &ids(&part.attempts),
            new_batch_id: new.batch_id,
            moved: &ids(&new.attempts),
        };
        // Of one that was lost nothing is settled either, and each of its rows is told as lost.
        self.settling.scanner.store.split(&request).await?;
        Ok(new)
    }

    fn settled(&mut self, settled: Vec<Settled>, attempts: &[Attempt]) {
        let held_blocks = self.settling.streams.held_blocks;
        for (row, attempt) in settled.iter().zip(attempts) {
            let in_the_way = match &row.outcome {
                Outcome::Recovered | Outcome::Superseded | Outcome::Lost => false,
                Outcome::SourcePresent | Outcome::Gone => held_blocks,
                Outcome::Blocked | Outcome::Unsettled(_) => true,
                Outcome::Failed(_) => match attempt.on_failure.status {
                    RecoveryStatus::HoldForReview => held_blocks,
                    RecoveryStatus::Recovered | RecoveryStatus::PermanentlyFailed => false,
                    RecoveryStatus::Pending | RecoveryStatus::Recovering => true,
                },
            };
            if in_the_way && attempt.in_order {
                self.stopped.extend(self.keys.get(&row.dead_letter_id));
            }
        }
        self.settled.extend(settled);
    }
}
