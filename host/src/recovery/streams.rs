//! Rows that keep the order of their stream.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::plan::{Asking, Kind, Terms, keeps_order};
use super::planned::{Planned, Told};
use super::scan::Scanner;
use crate::model::decision::{Decision, Predecessor, decide};
use crate::model::{DeadLetter, StreamMode};
use crate::store::{Attempt, Candidate, InStream, StoreError, StreamOrder};

/// The part that the rows of a batch have in the order of their streams. Pure.
#[derive(Debug, Default)]
pub struct Parts {
    /// They are re-emitted, unless something stands in their way.
    going: Vec<Uuid>,
    /// They are in nobody's way.
    passed: Vec<Uuid>,
    /// They stay, and stand in the way of those behind them.
    standing: Vec<Uuid>,
    /// Until when those wait that this batch puts off.
    until: HashMap<Uuid, Timestamp>,
}

impl Parts {
    /// Finds out from the answers, of which there is one for each row.
    #[must_use]
    pub fn of(rows: &[Candidate], askings: &[Asking], terms: Terms) -> Self {
        let mut parts = Self::default();
        for (row, asking) in rows.iter().zip(askings) {
            // What the policy failed on has the part that it had before.
            let (Some(_), Ok(answers)) = (row.entry.stream(), &asking.answers) else { continue };
            let id = row.entry.dead_letter_id;
            if answers.stream_mode == StreamMode::PerMessage {
                parts.passed.push(id);
                continue;
            }
            match decide(&row.entry, answers, &row.siblings, terms.scan_interval, terms.now) {
                Decision::Recover { .. } => parts.going.push(id),
                Decision::PermanentlyFail => parts.passed.push(id),
                Decision::Hold(_) if terms.held_blocks_stream => parts.standing.push(id),
                Decision::Hold(_) => parts.passed.push(id),
                Decision::Wait { not_before, .. } | Decision::Skip { not_before } => {
                    parts.standing.push(id);
                    parts.until.insert(id, not_before);
                }
            }
        }
        parts
    }

    /// What to ask the store about the rows that would be re-emitted; `None` when none of them keeps an order.
    #[must_use]
    pub fn order(&self, held_blocks: bool) -> Option<StreamOrder<'_>> {
        let Self { going, passed, standing, .. } = self;
        (!going.is_empty()).then_some(StreamOrder { ids: going, passed, standing, held_blocks })
    }

    /// Tells the rows what the store answered: what stands in the way of each. Their places in the order of streams.
    pub fn tell(&self, rows: &mut [Candidate], order: Vec<InStream>) -> HashMap<Uuid, usize> {
        let places: HashMap<Uuid, (usize, InStream)> =
            order.into_iter().enumerate().map(|(place, row)| (row.dead_letter_id, (place, row))).collect();
        for row in rows {
            if let Some((_, found)) = places.get(&row.entry.dead_letter_id) {
                let due_at = |earlier: Predecessor| self.until.get(&earlier.dead_letter_id).copied().or(earlier.due_at);
                row.siblings.predecessor =
                    found.predecessor.map(|earlier| Predecessor { due_at: due_at(earlier), ..earlier });
            }
        }
        places.into_iter().map(|(id, (place, _))| (id, place)).collect()
    }
}

/// How many of the rows keep the order of their streams.
pub(super) fn in_order(rows: &[Candidate], askings: &[Asking]) -> usize {
    let keeps = |(row, asking): &(&Candidate, &Asking)| {
        asking.answers.as_ref().is_ok_and(|answers| keeps_order(&row.entry, answers))
    };
    rows.iter().zip(askings).filter(keeps).count()
}

/// Tells rows that would be re-emitted in the order of their streams what stands in their way; the places of these rows
/// in that order. A batch of which nothing keeps an order costs nothing.
pub(super) async fn line_up(
    scanner: &Scanner,
    rows: &mut [Candidate],
    askings: &[Asking],
    terms: Terms,
) -> Result<HashMap<Uuid, usize>, StoreError> {
    let parts = Parts::of(rows, askings, terms);
    match parts.order(terms.held_blocks_stream) {
        Some(order) => Ok(parts.tell(rows, scanner.store.stream_order(&order).await?)),
        None => Ok(HashMap::new()),
    }
}

/// The attempts that can be made after the endings that were carried out. A row that was to be held or given up and has
/// changed since stands in the way of those behind it still; they are left to the next scan.
pub(super) fn still_going(rows: &[Planned], attempts: &[Attempt], ended: &HashSet<Uuid>) -> Vec<Attempt> {
    let stopped: HashSet<_> = rows
        .iter()
        .filter(|row| matches!(row.told, Told::End(Kind::Held | Kind::PermanentlyFailed)))
        .filter(|row| !ended.contains(&row.entry.dead_letter_id))
        .filter_map(|row| row.entry.stream_key())
        .collect();
    let entries: HashMap<Uuid, &DeadLetter> = rows.iter().map(|row| (row.entry.dead_letter_id, &row.entry)).collect();
    let goes = |attempt: &&Attempt| {
        let key = entries.get(&attempt.dead_letter_id).and_then(|entry| entry.stream_key());
        !attempt.in_order || key.is_none_or(|key| !stopped.contains(&key))
    };
    attempts.iter().filter(goes).cloned().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::decision::Standing;
    use crate::model::json::parse_entry;
    use crate::model::{RecoveryStatus, SourceTable};
    use crate::store::{DecisionRecord, Ruling};

    fn no_ruling() -> Arc<Ruling> {
        Arc::new(Ruling { policy_name: String::new(), policy_digest: String::new(), rule: "null".to_owned() })
    }

    fn row(n: u128, stream: u128, told: Told) -> Planned {
        let (id, stream) = (Uuid::from_u128(n), Uuid::from_u128(stream));
        let entry = json!({ "failure_reason": "Throttled", "dead_letter_id": id, "stream_id": stream });
        let entry = parse_entry(&entry.to_string(), Timestamp::UNIX_EPOCH).unwrap();
        Planned { entry, ruling: no_ruling(), rule_name: String::new(), told }
    }

    fn attempt(n: u128, in_order: bool) -> Attempt {
        Attempt {
            dead_letter_id: Uuid::from_u128(n),
            source_table: SourceTable::Outbox,
            credit: None,
            in_order,
            on_failure: Standing { status: RecoveryStatus::Pending, next_recovery_at: None, deferral: None },
            record: DecisionRecord { ruling: no_ruling(), attempt: 1, inputs: "{}".to_owned() },
        }
    }

    #[test]
    fn rows_behind_one_that_could_not_be_held_or_given_up_are_left_to_the_next_scan() {
        let recover = Told::Attempt { on_failure: RecoveryStatus::Pending };
        let rows = [
            row(1, 1, Told::End(Kind::Held)),
            row(2, 1, recover),
            row(3, 1, recover),
            row(4, 2, recover),
            row(5, 3, Told::End(Kind::PermanentlyFailed)),
            row(6, 3, recover),
            row(7, 2, Told::End(Kind::Cooling)),
        ];
        let attempts = [attempt(2, true), attempt(3, false), attempt(4, true), attempt(6, true)];
        let going = |ended: &[u128]| -> Vec<u128> {
            let ended = ended.iter().copied().map(Uuid::from_u128).collect();
            still_going(&rows, &attempts, &ended).iter().map(|attempt| attempt.dead_letter_id.as_u128()).collect()
        };
        assert_eq!(going(&[1, 5]), [2, 3, 4, 6]);
        assert_eq!(going(&[5]), [3, 4, 6], "the third takes no part in the order");
        assert_eq!(going(&[]), [3, 4]);
    }
}
