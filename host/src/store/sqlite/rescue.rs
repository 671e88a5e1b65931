//! Dissolving the batches of hosts that died.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::SqliteStore;
use super::batch::{self, parse_ids};
use super::connect::Write;
use super::decisions;
use super::guard::{self, Stop, tell_refused};
use super::streams;
use super::values::{Cell, json_ids, time_text};
use crate::model::decision::after_policy_error;
use crate::model::{FailureReason, RecoveryStatus};
use crate::store::{Rescued, Result};

/// With ?2 every batch, whatever its lease.
const EXPIRED: &str =
    "select batch_id, phase, ids, started_at from wh_recovery_batches where expires_at <= ?1 or ?2 order by batch_id";
/// A credit that was there when the batch began pays for the attempt (?3: when the batch began).
const COUNT_ATTEMPT: &str = "update wh_dead_letters set last_recovery_at = ?1, \
    recovery_attempts = recovery_attempts + (replay_credit is null or coalesce(replay_credit_at > ?3, 0)), \
    replay_credit = case when replay_credit_at > ?3 then replay_credit end, \
    replay_credit_at = case when replay_credit_at > ?3 then replay_credit_at end, \
    status_note = 'its lease ended before the attempt was settled' \
    where dead_letter_id = ?2 and recovery_status < 2 and recovered_at is null";
const POLICY_ERRORS: &str = "select policy_errors, failure_reason from wh_dead_letters where dead_letter_id = ? \
    and recovery_status < 2 and recovered_at is null";
const COUNT_POLICY_ERROR: &str = "update wh_dead_letters set policy_errors = ?, recovery_status = ?, \
    next_recovery_at = ?, deferral = ?, status_note = 'its lease ended while the policy was asked' \
    where dead_letter_id = ?";

const HELD: &str = "select dead_letter_id from wh_dead_letters where dead_letter_id in (select value from json_each(?)) \
    and recovery_status = 2";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("rescue::HELD", HELD),
    ("rescue::EXPIRED", EXPIRED),
    ("rescue::COUNT_ATTEMPT", COUNT_ATTEMPT),
    ("rescue::POLICY_ERRORS", POLICY_ERRORS),
    ("rescue::COUNT_POLICY_ERROR", COUNT_POLICY_ERROR),
];

/// See [`crate::store::RecoveryStore::rescue`].
pub(super) async fn rescue(store: &SqliteStore, max_policy_errors: u32, now: Option<Timestamp>) -> Result<Rescued> {
    // Only one host recovers at a time, so the batches that it finds when it starts belong to dead ones.
    let all = store.orphans.load(Ordering::Acquire);
    let mut passed = HashSet::new();
    let rescued = loop {
        let mut write = store.write(now).await?;
        match rescue_in(&mut write, max_policy_errors, all, &passed).await {
            Ok(rescued) => {
                write.commit().await?;
                break rescued;
            }
            // Begun anew without it.
            Err(Stop { row: Some(row), error }) if passed.insert(row) => tell_refused(&row.to_string(), &error),
            Err(stop) => return Err(store.fault.of("rescue expired batches", stop.error)),
        }
    };
    if all {
        store.orphans.store(false, Ordering::Release);
    }
    Ok(rescued)
}

async fn rescue_in(
    write: &mut Write<'_>,
    max_policy_errors: u32,
    all: bool,
    passed: &HashSet<Uuid>,
) -> std::result::Result<Rescued, Stop> {
    let expired = sqlx::query(EXPIRED).bind(time_text(write.now)).bind(all).fetch_all(&mut write.conn).await?;
    let mut rescued = Rescued::default();
    let mut undecided = Vec::new();
    for row in &expired {
        let text = |index| Cell::at(row, index).into_text().unwrap_or_default();
        sqlx::query(batch::DELETE).bind(text(0)).execute(&mut write.conn).await?;
        rescued.batches += 1;
        let recovering = text(1) == batch::Phase::Recovering.name();
        for id in parse_ids(&text(2)).into_iter().filter(|id| !passed.contains(id)) {
            guard::open(&mut write.conn).await?;
            let counted = if recovering {
                count_attempt(write, id, row).await
            } else {
                undecided.push(id);
                count_policy_error(write, id, max_policy_errors).await
            };
            match guard::close(&mut write.conn, Some(id), counted).await? {
                Ok(counted) => rescued.add(counted),
                // It keeps no other from being counted.
                Err(error) => tell_refused(&id.to_string(), &error),
            }
        }
    }
    if !undecided.is_empty() {
        let held = sqlx::query(HELD).bind(json_ids(undecided)).fetch_all(&mut write.conn).await?;
        let held: Vec<String> = held.iter().filter_map(|row| Cell::at(row, 0).into_text()).collect();
        streams::wake_behind(write, held).await?;
    }
    Ok(rescued)
}

/// What was counted on one row.
#[derive(Default)]
struct Counted {
    attempts: u64,
    policy_errors: u64,
    held: Option<FailureReason>,
}

impl Rescued {
    fn add(&mut self, row: Counted) {
        self.attempts += row.attempts;
        self.policy_errors += row.policy_errors;
        self.held.extend(row.held);
    }
}

async fn count_attempt(
    write: &mut Write<'_>,
    id: Uuid,
    batch: &SqliteRow,
) -> std::result::Result<Counted, sqlx::Error> {
    let started = Cell::at(batch, 3).into_text().unwrap_or_default();
    let query = sqlx::query(COUNT_ATTEMPT).bind(time_text(write.now)).bind(id.to_string()).bind(started);
    let attempts = query.execute(&mut write.conn).await?.rows_affected();
    Ok(Counted { attempts, ..Counted::default() })
}

async fn count_policy_error(write: &mut Write<'_>, id: Uuid, max: u32) -> std::result::Result<Counted, sqlx::Error> {
    let row = sqlx::query(POLICY_ERRORS).bind(id.to_string()).fetch_optional(&mut write.conn).await?;
    let Some(row) = row else {
        return Ok(Counted::default());
    };
    let number = |index| Cell::at(&row, index).integer().and_then(|number| i32::try_from(number).ok());
    let errors = number(0).unwrap_or(0).saturating_add(1);
    let standing = after_policy_error(errors, max, write.now);
    let query = sqlx::query(COUNT_POLICY_ERROR)
        .bind(errors)
        .bind(standing.status.number())
        .bind(standing.next_recovery_at.map(time_text))
        .bind(standing.deferral.map(|deferral| deferral.name()))
        .bind(id.to_string());
    guard::changed(&query.execute(&mut write.conn).await?)?;
    let mut held = None;
    if standing.status == RecoveryStatus::HoldForReview {
        decisions::record_hold(write, id).await?;
        held = Some(number(1).map_or(FailureReason::UNKNOWN, FailureReason));
    }
    Ok(Counted { policy_errors: 1, held, ..Counted::default() })
}
