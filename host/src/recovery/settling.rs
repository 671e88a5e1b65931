//! Settling the attempts of a batch, and finding the row that the database refuses to settle.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use uuid::Uuid;

use super::planned::Planned;
use super::scan::Scanner;
use crate::model::SourceTable;
use crate::store::{Attempt, Outcome, Settle, Settled, Split, StoreError, StreamTerms};

/// How often settling is tried again after a fault of the infrastructure, within a few seconds.
const SETTLE_RETRIES: usize = 5;

/// Where so many rows may not even fail and none may be settled, it is not the rows.
const NOT_THE_ROWS: usize = 8;

/// What is to be settled.
pub(super) struct Settling<'a> {
    pub scanner: &'a Scanner,
    pub batch_id: Uuid,
    /// What the batch holds: the attempts, and perhaps others that are left alone.
    pub begun: &'a [Uuid],
    pub attempts: &'a [Attempt],
    /// The rows of the attempts, and others.
    pub rows: &'a [Planned],
    pub streams: StreamTerms,
}

/// What was settled, committed.
pub(super) struct Done {
    pub settled: Vec<Settled>,
    /// Whether that is all of it; the others were given back.
    pub complete: bool,
    /// Why not.
    pub error: Option<StoreError>,
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
    /// Streams of which a row was not recovered.
    stopped: HashSet<StreamKey<'a>>,
    settled: Vec<Settled>,
    /// Batches of rows that may not even fail, and what the database said of the last one.
    stuck: Vec<Uuid>,
    refusal: Option<StoreError>,
    /// What is left to be done, the next one last.
    parts: Vec<Part>,
    /// When what is left was last prolonged.
    renewed: Instant,
}

impl Settling<'_> {
    /// Settles them. What the database refuses is halved, left part first, each part a batch of its own, until the row
    /// stands alone that it is about. That one fails for it; if it may not fail either, it stays in its batch for
    /// `scan_interval`. Rows behind one of their stream that was not recovered are given back, to be decided anew.
    pub(super) async fn settle(&self) -> Done {
        match self.in_the_end(self.batch_id, self.attempts, None).await {
            Ok(settled) => Done { settled, complete: true, error: None },
            Err(StoreError::Database { problem, .. }) => self.apart(problem).await,
            Err(error) => Done { settled: Vec::new(), complete: false, error: Some(error) },
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

    async fn apart(&self, problem: String) -> Done {
        let keys = self.rows.iter().map(|row| &row.entry);
        let keys = keys.filter_map(|entry| Some((entry.dead_letter_id, entry.stream_key()?))).collect();
        let mut apart = Apart {
            settling: self,
            keys,
            stopped: HashSet::new(),
            settled: Vec::new(),
            stuck: Vec::new(),
            refusal: None,
            parts: Vec::new(),
            renewed: Instant::now(),
        };
        let whole = Part { batch_id: self.batch_id, attempts: self.attempts.to_vec() };
        let mut done = apart.start(whole, problem).await;
        while done.is_ok()
            && !self.scanner.shutdown.is_cancelled()
            && let Some(part) = apart.parts.pop()
        {
            let batch_id = part.batch_id;
            done = apart.part(part).await;
            if done.is_err() {
                self.scanner.abandon(batch_id).await;
            }
        }
        for part in &apart.parts {
            self.scanner.abandon(part.batch_id).await;
        }
        if done.is_ok() {
            done = apart.rest().await;
        }
        let complete = done.is_ok() && apart.parts.is_empty();
        Done { settled: apart.settled, complete, error: done.err() }
    }
}

impl Apart<'_> {
    /// Halves what was refused as a whole, without what the batch holds beside it. Each part has a whole lease.
    async fn start(&mut self, whole: Part, problem: String) -> Result<(), StoreError> {
        self.renew(&whole).await;
        let going: HashSet<Uuid> = whole.attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
        let others: Vec<Uuid> = self.settling.begun.iter().copied().filter(|id| !going.contains(id)).collect();
        let others = self.split(&whole.attempts, &[], whole.batch_id, &others).await?;
        self.settling.scanner.abandon(others).await;
        self.refused(whole, problem).await
    }

    /// Lets the rows rest that may not even fail. Where there is nothing else, they are given back, and the fault is told
    /// instead of each of them.
    async fn rest(&mut self) -> Result<(), StoreError> {
        let nothing = |row: &Settled| matches!(row.outcome, Outcome::Unsettled(_) | Outcome::Blocked | Outcome::Lost);
        if self.stuck.len() >= NOT_THE_ROWS
            && self.settled.iter().all(nothing)
            && let Some(error) = self.refusal.take()
        {
            for batch_id in self.stuck.drain(..) {
                self.settling.scanner.abandon(batch_id).await;
            }
            self.settled.clear();
            return Err(error);
        }
        let Scanner { store, options, now, .. } = self.settling.scanner;
        for batch_id in &self.stuck {
            if let Err(error) = store.renew(*batch_id, options.scan_interval, *now).await {
                tracing::debug!(%batch_id, %error, "a row that may not change is tried again sooner");
            }
        }
        Ok(())
    }

    async fn part(&mut self, part: Part) -> Result<(), StoreError> {
        let Some(part) = self.without_those_behind(part).await? else { return Ok(()) };
        self.renew(&part).await;
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
    async fn renew(&mut self, part: &Part) {
        let Scanner { store, options, now, .. } = self.settling.scanner;
        let waiting = if self.renewed.elapsed() < options.lease / 3 { &[] } else { self.parts.as_slice() };
        for part in waiting.iter().chain([part]) {
            if let Err(error) = store.renew(part.batch_id, options.lease, *now).await {
                tracing::warn!(batch_id = %part.batch_id, %error, "a lease was not renewed");
            }
        }
        if !waiting.is_empty() {
            self.renewed = Instant::now();
        }
    }

    /// Halves what was refused, or makes it fail when it is one row.
    async fn refused(&mut self, mut part: Part, problem: String) -> Result<(), StoreError> {
        if part.attempts.len() > 1 {
            let right = part.attempts.split_off(part.attempts.len() / 2);
            let batch_id = self.split(&part.attempts, &right, part.batch_id, &[]).await?;
            self.parts.extend([Part { batch_id, attempts: right }, part]);
            return Ok(());
        }
        match self.settling.in_the_end(part.batch_id, &part.attempts, Some(&problem)).await {
            Ok(settled) => self.settled(settled, &part.attempts),
            Err(error @ StoreError::Database { .. }) => {
                self.stuck.push(part.batch_id);
                self.refusal = Some(error);
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

    /// The part without rows that stand behind one of their stream that was not recovered: these are given back.
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
            self.settling.scanner.abandon(batch_id).await;
            return Ok(None);
        }
        let given_back = self.split(&going.attempts, &behind, going.batch_id, &[]).await?;
        self.settling.scanner.abandon(given_back).await;
        Ok(Some(going))
    }

    fn is_behind(&self, attempt: &Attempt) -> bool {
        attempt.in_order && self.keys.get(&attempt.dead_letter_id).is_some_and(|key| self.stopped.contains(key))
    }

    /// Moves attempts, or other rows, out of a batch into one of their own. Either holds the streams of those alone that
    /// keep an order: the others are in nobody's way, however long they stay.
    async fn split(
        &self,
        keep: &[Attempt],
        moved: &[Attempt],
        batch_id: Uuid,
        others: &[Uuid],
    ) -> Result<Uuid, StoreError> {
        let new_batch_id = Uuid::now_v7();
        let in_order: Vec<Uuid> =
            keep.iter().chain(moved).filter(|attempt| attempt.in_order).map(|attempt| attempt.dead_letter_id).collect();
        let moved: Vec<Uuid> = ids(moved).into_iter().chain(others.iter().copied()).collect();
        let request = Split { batch_id, keep: &ids(keep), new_batch_id, moved: &moved, in_order: &in_order };
        // Of a batch that was lost nothing is settled either, and each of its rows is told as lost.
        match self.settling.scanner.store.split(&request).await {
            Ok(_) => Ok(new_batch_id),
            Err(error) => {
                // It may have been committed with only the answer lost.
                self.settling.scanner.abandon(new_batch_id).await;
                Err(error)
            }
        }
    }

    /// Takes note of what was committed. What stands of a row that was not recovered, the database alone knows by now:
    /// somebody may have given it a credit, or held it.
    fn settled(&mut self, settled: Vec<Settled>, attempts: &[Attempt]) {
        for (row, attempt) in settled.iter().zip(attempts) {
            if attempt.in_order && !matches!(row.outcome, Outcome::Recovered | Outcome::Superseded) {
                self.stopped.extend(self.keys.get(&row.dead_letter_id));
            }
        }
        self.settled.extend(settled);
    }
}

fn ids(attempts: &[Attempt]) -> Vec<Uuid> {
    attempts.iter().map(|attempt| attempt.dead_letter_id).collect()
}
