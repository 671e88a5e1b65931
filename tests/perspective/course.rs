//! What instances do in a random course, on a store and on the model at once.

use proptest::collection::vec;
use proptest::prelude::*;
use reprieve::model::{FailureReason, SourceTable};
use reprieve::store::perspective::{DoomedRow, EventClaim, Heartbeat, LeasedMove, LeasedMoves, OrphanClaim};
use serde_json::json;
use uuid::Uuid;

use super::model::{Model, Row};
use super::{LEASE, arrives_as, claim_of, failure};
use crate::harness::{Backend, at, id, instance, source, stream};

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    Arrive(u64, bool),
    Claim {
        who: u64,
        stream: u64,
        in_order: bool,
    },
    Orphans {
        who: u64,
        max: u32,
        in_order: bool,
    },
    /// Of the last claim of an instance, the rows whose bit is set.
    Complete(u64, u8),
    Fail(u64, u8),
    Bury(u64, u8),
    Recover(u64),
    Heartbeat(u64),
    Pass(i64),
}

/// Courses in which everything comes about.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 1..4_u64;
    let on = 1..4_u64;
    let step = prop_oneof![
        5 => (on.clone(), any::<bool>()).prop_map(|(on, totals)| Step::Arrive(on, totals)),
        8 => (who.clone(), on, any::<bool>()).prop_map(|(who, stream, in_order)| Step::Claim { who, stream, in_order }),
        3 => (who.clone(), 1..5_u32, any::<bool>())
            .prop_map(|(who, max, in_order)| Step::Orphans { who, max, in_order }),
        3 => (who.clone(), any::<u8>()).prop_map(|(who, bits)| Step::Complete(who, bits)),
        4 => (who.clone(), any::<u8>()).prop_map(|(who, bits)| Step::Fail(who, bits)),
        1 => (who.clone(), any::<u8>()).prop_map(|(who, bits)| Step::Bury(who, bits)),
        1 => (1..12_u64).prop_map(Step::Recover),
        1 => who.prop_map(Step::Heartbeat),
        4 => prop_oneof![1..5_i64, 50..70_i64, 300..310_i64].prop_map(Step::Pass),
    ];
    vec(step, 1..40)
}

/// What happens beside the store, the same for both.
#[derive(Default)]
pub struct Course {
    /// What is expected, and the clock.
    pub model: Model,
    pub now: i64,
    last: [Vec<u64>; 4],
    deaths: Vec<(u64, Uuid)>,
}

impl Course {
    fn chosen(&self, who: u64, bits: u8) -> Vec<u64> {
        let last = &self.last[usize::try_from(who).unwrap()];
        last.iter().zip(0..8).filter(|(_, bit)| bits >> bit & 1 == 1).map(|(number, _)| *number).collect()
    }

    /// Takes a step on the store and on the model; what each of them answered.
    pub async fn take(&mut self, store: &Backend, step: &Step) -> (String, String) {
        self.now += 1;
        match step {
            Step::Arrive(on, totals) => {
                let number = u64::try_from(self.model.rows.len()).unwrap() + 1;
                let perspective = if *totals { "totals" } else { "invoices" };
                arrives_as(store, number, *on, json!({ "perspective_name": perspective })).await;
                self.model.rows.push(Row::new(number, *on, perspective));
                (String::new(), String::new())
            }
            Step::Claim { who, stream: on, in_order } => self.claim(store, *who, *on, *in_order).await,
            Step::Orphans { who, max, in_order } => {
                let (instance_id, now) = (instance(*who), Some(at(self.now)));
                let claim = OrphanClaim { instance_id, max: *max, in_order: *in_order, lease: LEASE, now };
                let taken = store.claim_orphaned_events(&claim).await.unwrap();
                let taken: Vec<Uuid> = taken.iter().map(|orphan| orphan.event_work_id).collect();
                let expected = self.model.orphans(*who, usize::try_from(*max).unwrap(), *in_order, self.now);
                (format!("{:?}", numbers(&taken)), format!("{expected:?}"))
            }
            Step::Complete(who, bits) => {
                let chosen = self.chosen(*who, *bits);
                let ids: Vec<Uuid> = chosen.iter().map(|n| source(*n)).collect();
                let done = store.complete_events(instance(*who), &ids, Some(at(self.now))).await.unwrap();
                (format!("{:?}", sorted(&done)), format!("{:?}", self.model.complete(*who, &chosen)))
            }
            Step::Fail(who, bits) => {
                let chosen = self.chosen(*who, *bits);
                let failures: Vec<_> = chosen.iter().map(|n| failure(*n)).collect();
                let failed = store.fail_events(instance(*who), &failures, Some(at(self.now))).await.unwrap();
                (format!("{:?}", sorted(&failed)), format!("{:?}", self.model.fail(*who, &chosen, self.now)))
            }
            Step::Bury(who, bits) => self.bury(store, *who, *bits).await,
            Step::Recover(number) => {
                let death = self.deaths.iter().rev().find(|(n, _)| n == number).map_or(id(0), |(_, death)| *death);
                let recovered = store.recover_dead_letter(death, Some(at(self.now))).await.unwrap();
                (format!("{recovered}"), format!("{}", self.model.recover(*number)))
            }
            Step::Heartbeat(who) => {
                let heartbeat = Heartbeat {
                    instance_id: instance(*who),
                    service_name: "shop",
                    host_name: "h1",
                    process_id: 1,
                    now: Some(at(self.now)),
                };
                store.heartbeat(&heartbeat).await.unwrap();
                self.model.heartbeat(*who, self.now);
                (String::new(), String::new())
            }
            Step::Pass(seconds) => {
                self.now += seconds;
                (String::new(), String::new())
            }
        }
    }

    async fn claim(&mut self, store: &Backend, who: u64, on: u64, in_order: bool) -> (String, String) {
        let streams = [stream(on)];
        let claim = EventClaim { in_order, ..claim_of(who, &streams, at(self.now)) };
        let claimed = store.claim_events(&claim).await.unwrap();
        let given: Vec<(u64, i32)> = claimed.iter().map(|row| (number(row.event_work_id), row.attempts)).collect();
        let expected = self.model.claim(who, on, in_order, self.now);
        self.last[usize::try_from(who).unwrap()] = expected.iter().map(|(number, _)| *number).collect();
        (format!("{given:?}"), format!("{expected:?}"))
    }

    async fn bury(&mut self, store: &Backend, who: u64, bits: u8) -> (String, String) {
        let chosen = self.chosen(who, bits);
        let doomed = |n: &u64| DoomedRow {
            source_id: source(*n),
            dead_letter_id: Uuid::now_v7(),
            error_text: "spent".to_owned(),
        };
        let rows: Vec<DoomedRow> = chosen.iter().map(doomed).collect();
        let moves = LeasedMoves {
            source_table: SourceTable::PerspectiveEvents,
            rows: &rows,
            failure_reason: FailureReason::MAX_ATTEMPTS_EXCEEDED,
            instance_id: instance(who),
            generation: "g1",
            now: Some(at(self.now)),
        };
        let outcomes = store.move_leased(&moves).await.unwrap();
        let moved: Vec<&DoomedRow> = rows
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| *outcome == LeasedMove::Moved)
            .map(|(row, _)| row)
            .collect();
        self.deaths.extend(moved.iter().map(|row| (number(row.source_id), row.dead_letter_id)));
        let ids: Vec<Uuid> = moved.iter().map(|row| row.source_id).collect();
        (format!("{:?}", sorted(&ids)), format!("{:?}", self.model.bury(who, &chosen)))
    }
}

/// The number of a row.
pub fn number(row: Uuid) -> u64 {
    (1..100).find(|n| source(*n) == row).unwrap()
}

fn numbers(rows: &[Uuid]) -> Vec<u64> {
    rows.iter().map(|row| number(*row)).collect()
}

fn sorted(rows: &[Uuid]) -> Vec<u64> {
    let mut numbers = numbers(rows);
    numbers.sort_unstable();
    numbers
}
