//! The work on one claim: ask, plan, begin, settle.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use jiff::Timestamp;
use uuid::Uuid;

use super::ask::Asker;
use super::lease::Lease;
use super::plan::{Step, Terms, plan};
use super::record::Asked;
use super::report::Report;
use super::scan::{ScanError, Scanner};
use super::{RecoveryOptions, ScanCounts};
use crate::model::view::PolicyView;
use crate::store::{Attempt, Begin, Begun, Candidate, Claim, Ending, Outcome, Settle, Settled, StoreError};

/// How often settling is tried again after a fault of the infrastructure, within a few seconds.
const SETTLE_RETRIES: usize = 5;

/// A claim to be worked on.
pub(super) struct Batch {
    id: Uuid,
    claim: Claim,
}

/// What came of a batch.
pub(super) struct Worked {
    pub counts: ScanCounts,
    /// Whether rows were met that fell due after the scan began: they belong to the next one.
    pub past_the_scan: bool,
}

/// A row with all that was learned about it and what is to be done.
pub(super) struct Planned {
    pub candidate: Candidate,
    pub asked: Asked,
    /// The name that the policy gave its rule; the policy's own name when it did not answer.
    pub rule_name: String,
    pub step: Step,
}

impl Batch {
    pub(super) const fn new(id: Uuid, claim: Claim) -> Self {
        Self { id, claim }
    }

    /// Works on the batch to its end. On an error the batch is given back or left to end with its lease.
    pub(super) async fn work(self, scanner: &Scanner, asker: &mut Asker) -> Result<Worked, ScanError> {
        let mut report = Report::new(scanner.metrics.clone());
        for (id, problem) in &self.claim.unreadable {
            report.unreadable(id, problem);
        }
        let now = *asker.now.get_or_insert(self.claim.now);
        let claimed = self.claim.rows.len();
        let rows: Vec<Candidate> = self.claim.rows.into_iter().filter(|row| due_at(row) <= now).collect();
        let past_the_scan = rows.len() < claimed;
        if claimed == 0 {
            return Ok(Worked { counts: report.counts(), past_the_scan });
        }
        let lease = Lease { scanner, batch_id: self.id };
        let done = async {
            let planned = tokio::select! {
                planned = decide_rows(scanner, asker, rows, now) => planned?,
                () = lease.lost() => {
                    report.lost();
                    return Ok(());
                }
                () = scanner.shutdown.cancelled() => return Ok(scanner.store.release(self.id).await?),
            };
            Ok(commit(scanner, &lease, &planned, &mut report).await?)
        }
        .await;
        // An attempt that the database refused as a whole has been counted, and stays so: the lease's end tells the
        // rows. Otherwise the same batch would come back for ever.
        if let Err(error) = &done
            && !matches!(error, ScanError::Store(StoreError::Database { .. }))
        {
            scanner.abandon(self.id).await;
        }
        done.map(|()| Worked { counts: report.counts(), past_the_scan })
    }
}

fn due_at(row: &Candidate) -> Timestamp {
    row.entry.next_recovery_at.unwrap_or(Timestamp::MIN)
}

/// Asks about the rows and plans each.
async fn decide_rows(
    scanner: &Scanner,
    asker: &mut Asker,
    rows: Vec<Candidate>,
    now: Timestamp,
) -> Result<Vec<Planned>, ScanError> {
    let views: Vec<PolicyView> = rows.iter().map(|row| PolicyView::of(&row.entry)).collect();
    let askings = asker.ask(scanner, &views, now).await?;
    let terms = terms(&scanner.options, now);
    Ok(rows
        .into_iter()
        .zip(views)
        .zip(askings)
        .map(|((candidate, view), asking)| {
            let step = plan(&candidate, &view, &asking, terms);
            let rule_name = match &asking.answers {
                Ok(answers) => answers.policy.name.clone(),
                Err(_) => asking.asked.name.clone(),
            };
            Planned { candidate, asked: asking.asked, rule_name, step }
        })
        .collect())
}

fn terms(options: &RecoveryOptions, now: Timestamp) -> Terms {
    Terms { scan_interval: options.scan_interval, max_policy_errors: options.max_policy_errors, now }
}

/// Carries the plan out and reports what was committed.
async fn commit(
    scanner: &Scanner,
    lease: &Lease<'_>,
    planned: &[Planned],
    report: &mut Report,
) -> Result<(), StoreError> {
    let (attempts, endings) = sorted(planned);
    let recover: Vec<Uuid> = attempts.iter().map(|attempt| attempt.dead_letter_id).collect();
    let begin = Begin { batch_id: lease.batch_id, recover: &recover, endings: &endings, now: scanner.now };
    let Begun::Done { ended } = scanner.store.begin(&begin).await? else {
        report.lost();
        return Ok(());
    };
    report.begun(planned, &ended.into_iter().collect::<HashSet<_>>());
    if attempts.is_empty() {
        return Ok(());
    }
    let settle = Settle { batch_id: lease.batch_id, attempts: &attempts, now: scanner.now };
    let started = Instant::now();
    let settled = lease.kept(settle_in_the_end(scanner, &settle)).await;
    scanner.metrics.settle(started.elapsed());
    let outcomes: HashMap<Uuid, Outcome> = settled?.into_iter().map(|row| (row.dead_letter_id, row.outcome)).collect();
    report.settled(planned, &outcomes);
    Ok(())
}

/// Settles, again after a fault of the infrastructure: the attempt has been counted, and a batch row that still
/// stands proves that nothing was re-emitted.
async fn settle_in_the_end(scanner: &Scanner, settle: &Settle<'_>) -> Result<Vec<Settled>, StoreError> {
    let delays = ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(100))
        .with_max_times(SETTLE_RETRIES);
    (|| scanner.store.settle(settle))
        .retry(delays)
        .when(|error| error.is_transient() && !scanner.shutdown.is_cancelled())
        .notify(|error, wait| tracing::warn!(batch_id = %settle.batch_id, %error, ?wait, "settling is tried again"))
        .await
}

fn sorted(planned: &[Planned]) -> (Vec<Attempt>, Vec<Ending>) {
    let mut attempts = Vec::new();
    let mut endings = Vec::new();
    for row in planned {
        match &row.step {
            Step::Attempt(attempt) => attempts.push(attempt.clone()),
            Step::End(ending, _) => endings.push(ending.clone()),
        }
    }
    (attempts, endings)
}
