//! The work on one claim: ask, plan, begin, settle.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use jiff::Timestamp;
use uuid::Uuid;

use super::ask::Asker;
use super::late::of_scan;
use super::lease::Lease;
use super::pass::Pass;
use super::plan::Terms;
use super::planned::Plan;
use super::record::inputs;
use super::report::Report;
use super::scan::{ScanError, Scanner};
use super::settling::{Done, Settling};
use super::streams::{in_order, line_up};
use super::{RecoveryOptions, ScanCounts};
use crate::model::view::PolicyView;
use crate::store::{Begin, Begun, Candidate, Claim, Outcome, StoreError, StreamTerms};

/// A claim to be worked on.
pub(super) struct Batch {
    id: Uuid,
    claim: Claim,
    /// Whether its lane claims no other after it.
    is_last: bool,
}

/// What came of a batch.
pub(super) struct Worked {
    pub counts: ScanCounts,
    /// Whether the lane is done: it finds nothing more in this pass, or has met rows that fell due after the scan began,
    /// which belong to the next one.
    pub is_last: bool,
}

impl Batch {
    pub(super) const fn new(id: Uuid, claim: Claim, is_last: bool) -> Self {
        Self { id, claim, is_last }
    }

    /// Rows that were claimed.
    pub(super) fn rows(&self) -> u32 {
        u32::try_from(self.claim.rows.len()).unwrap_or(u32::MAX)
    }

    /// Works on the batch to its end. On an error the batch is given back or left to end with its lease.
    pub(super) async fn work(self, scanner: &Scanner, pass: &Pass, asker: &mut Asker) -> Result<Worked, ScanError> {
        let mut report = Report::new(scanner.metrics.clone());
        for (id, problem) in &self.claim.unreadable {
            report.unreadable(id, problem);
        }
        let now = *asker.now.get_or_insert(self.claim.now);
        let claimed = self.claim.rows.len();
        let rows = of_scan(self.claim.rows, now, self.claim.now);
        let is_last = self.is_last || rows.len() < claimed;
        if claimed == 0 {
            return Ok(Worked { counts: report.counts(), is_last });
        }
        let lease = Lease { scanner, batch_id: self.id };
        let mut begun = false;
        let done = async {
            let plan = tokio::select! {
                plan = decide_rows(scanner, asker, rows, now) => plan?,
                () = lease.lost() => {
                    report.lost();
                    return Ok(());
                }
                () = scanner.shutdown.cancelled() => return Ok(scanner.store.release(self.id).await?),
            };
            Ok(commit(scanner, pass, &lease, &plan, &mut report, &mut begun).await?)
        }
        .await;
        // What the database refuses as a whole would come back for ever. An attempt has been counted by then, and the
        // lease's end tells the rows; before it, smaller batches find out which row it is, and that one is told.
        if let Err(error) = &done
            && !(matches!(error, ScanError::Store(StoreError::Database { .. })) && (begun || claimed == 1))
        {
            scanner.abandon(self.id).await;
        }
        done.map(|()| Worked { counts: report.counts(), is_last })
    }
}

/// Asks about the rows and plans each.
async fn decide_rows(
    scanner: &Scanner,
    asker: &mut Asker,
    mut rows: Vec<Candidate>,
    now: Timestamp,
) -> Result<Plan, ScanError> {
    let views: Vec<PolicyView> = rows.iter().map(|row| PolicyView::of(&row.entry)).collect();
    let inputs: Vec<String> = views.iter().map(inputs).collect();
    let askings = asker.ask(scanner, &rows, views, now).await?;
    scanner.pace.answered(in_order(&rows, &askings), rows.len());
    let terms = terms(&scanner.options, now);
    let places = line_up(scanner, &mut rows, &askings, terms).await?;
    Ok(Plan::of(rows.into_iter().zip(inputs).collect(), askings, &places, terms))
}

fn terms(options: &RecoveryOptions, now: Timestamp) -> Terms {
    Terms {
        scan_interval: options.scan_interval,
        max_policy_errors: options.max_policy_errors,
        held_blocks_stream: options.held_blocks_stream,
        now,
    }
}

/// Carries the plan out and reports what was committed; `begun` tells whether the attempts have been counted.
async fn commit(
    scanner: &Scanner,
    pass: &Pass,
    lease: &Lease<'_>,
    plan: &Plan,
    report: &mut Report,
    begun: &mut bool,
) -> Result<(), StoreError> {
    let Plan { rows, attempts, endings } = plan;
    let recover: Vec<Uuid> = attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
    let RecoveryOptions { held_blocks_stream: held_blocks, scan_interval: wait, .. } = *scanner.options;
    let streams = StreamTerms { held_blocks, wait };
    let begin = Begin { batch_id: lease.batch_id, recover: &recover, endings, streams, now: scanner.now };
    let Begun::Done { ended } = scanner.store.begin(&begin).await? else {
        report.lost();
        return Ok(());
    };
    *begun = true;
    let ended: HashSet<Uuid> = ended.into_iter().collect();
    report.begun(rows, &ended);
    if attempts.is_empty() {
        return Ok(());
    }
    let attempts = &*plan.going(&ended);
    let settling = Settling { scanner, batch_id: lease.batch_id, begun: &recover, attempts, rows, streams };
    let settled = lease.kept(async {
        let _lane = tokio::select! {
            biased;
            lane = pass.lane() => lane,
            // Given back, it counts no attempt.
            () = scanner.shutdown.cancelled() => return scanner.store.release(lease.batch_id).await.map(|()| None),
        };
        report.attempting(rows);
        let started = Instant::now();
        let done = settling.settle().await;
        scanner.metrics.settle(started.elapsed());
        Ok(Some(done))
    });
    let Some(Done { settled, complete, error }) = settled.await? else { return Ok(()) };
    let outcomes: HashMap<Uuid, Outcome> = settled.into_iter().map(|row| (row.dead_letter_id, row.outcome)).collect();
    report.settled(rows, &outcomes, complete);
    error.map_or(Ok(()), Err)
}
