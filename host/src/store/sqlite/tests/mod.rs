//! The store through its traits, each test on a file of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed"
)]

mod batches;
mod connecting;
mod lists;
mod messages;
mod operators;
mod schema;
mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row as _};
use tempfile::TempDir;
use uuid::Uuid;

use super::SqliteStore;
use super::migrate::MIGRATIONS;
use crate::model::decision::Standing;
use crate::model::{DeadLetter, FailureReason, RecoveryStatus, SourceTable};
use crate::store::open::Options;
use crate::store::{
    Attempt, Begin, Begun, Claim, ClaimRequest, Cursor, DecisionRecord, Import, Move, NewDeadLetter, OperatorStore,
    Outcome, RecoveryStore, Row, Ruling, Settle, Verbs,
};

pub(super) const GENERATION: &str = "shop-1.0";

pub(super) struct File {
    pub(super) store: SqliteStore,
    pub(super) folder: TempDir,
    pub(super) url: String,
}

/// A time that many seconds after the start of the story.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

pub(super) async fn empty() -> File {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("store.db").display());
    let store = SqliteStore::connect(&url, &Options { create: true, ..Options::default() }).await.unwrap();
    File { store, folder, url }
}

pub(super) async fn migrated() -> File {
    let file = empty().await;
    assert_eq!(file.store.migrate(false).await.unwrap().len(), MIGRATIONS.len());
    file
}

impl File {
    /// A connection of an application's own.
    pub(super) async fn raw(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(self.folder.path().join("store.db")).connect().await.unwrap()
    }

    pub(super) async fn sql(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.raw().await).await.unwrap();
    }

    /// The first column of the first row, as text.
    pub(super) async fn text(&self, sql: &str) -> Option<String> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.raw().await).await.unwrap();
        let row: &sqlx::sqlite::SqliteRow = &row;
        assert!(row.len() > 0);
        super::values::Cell::at(row, 0).into_text()
    }

    /// How a statement is carried out.
    pub(super) async fn plan(&self, statement: &str) -> String {
        let (_, sql) = super::statements().iter().find(|(name, _)| *name == statement).unwrap();
        let sql = format!("explain query plan {sql}");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut self.raw().await).await.unwrap();
        rows.iter().filter_map(|row| super::values::Cell::at(row, 3).into_text()).collect::<Vec<_>>().join("\n")
    }

    pub(super) async fn import(&self, rows: &[NewDeadLetter]) {
        let imported = self.store.import(&Import { rows, now: Some(at(0)) }).await.unwrap();
        assert_eq!(imported.imported, u64::try_from(rows.len()).unwrap());
    }

    pub(super) async fn outbox(&self, id: Uuid, event_data: &str) {
        self.sql(&format!(
            "insert into wh_outbox (message_id, destination, message_type, event_data, metadata, scope, stream_id, \
             is_event, attempts, error) values ('{id}', 'orders', 'OrderPlaced', '{event_data}', '{{\"tenant\": 1.50}}', \
             '{{\"user\":\"ada\"}}', '00000000-0000-0000-0000-000000000000', 1, 7, 'boom')"
        ))
        .await;
    }

    pub(super) async fn die(&self, table: SourceTable, source_id: Uuid, now: Timestamp) -> Uuid {
        let dead_letter_id = Uuid::now_v7();
        let request = Move {
            dead_letter_id,
            source_table: table,
            source_id,
            failure_reason: FailureReason(8),
            error_text: Some("broken".to_owned()),
            instance_id: None,
            generation: GENERATION.to_owned(),
            now: Some(now),
        };
        assert_eq!(self.store.move_to_dead_letters(&request).await.unwrap().unwrap().dead_letter_id, dead_letter_id);
        dead_letter_id
    }

    pub(super) async fn entry(&self, id: Uuid) -> DeadLetter {
        match self.store.show(id).await.unwrap().unwrap().row {
            Row::Readable(entry) => entry,
            Row::Unreadable { problem, .. } => panic!("{problem}"),
        }
    }

    pub(super) async fn claim_after(&self, max: u32, now: Timestamp, after: Option<Cursor>) -> (Uuid, Claim) {
        let batch_id = Uuid::now_v7();
        let request = ClaimRequest {
            batch_id,
            owner: Uuid::nil(),
            generation: GENERATION,
            max,
            after,
            whole_streams: false,
            lease: Duration::from_secs(60),
            now: Some(now),
        };
        (batch_id, self.store.claim(&request).await.unwrap())
    }

    pub(super) async fn claim(&self, max: u32, now: Timestamp) -> (Uuid, Claim) {
        self.claim_after(max, now, None).await
    }

    /// Claims everything that is due and begins to recover it.
    pub(super) async fn begin_all(&self, now: Timestamp) -> (Uuid, Vec<DeadLetter>) {
        let (batch_id, claim) = self.claim(1000, now).await;
        let entries: Vec<_> = claim.rows.into_iter().map(|row| row.entry).collect();
        let recover: Vec<_> = entries.iter().map(|entry| entry.dead_letter_id).collect();
        let begin = Begin {
            batch_id,
            recover: &recover,
            endings: &[],
            streams: crate::store::StreamTerms::default(),
            now: Some(now),
        };
        assert_eq!(self.store.begin(&begin).await.unwrap(), Begun::Done { ended: vec![] });
        (batch_id, entries)
    }

    pub(super) async fn settle(&self, batch_id: Uuid, entries: &[DeadLetter], now: Timestamp) -> Vec<Outcome> {
        let attempts: Vec<_> = entries.iter().map(attempt).collect();
        let settle = Settle {
            batch_id,
            attempts: &attempts,
            streams: crate::store::StreamTerms::default(),
            refusal: None,
            now: Some(now),
        };
        self.store.settle(&settle).await.unwrap().into_iter().map(|settled| settled.outcome).collect()
    }
}

pub(super) fn attempt(entry: &DeadLetter) -> Attempt {
    Attempt {
        dead_letter_id: entry.dead_letter_id,
        source_table: entry.source_table,
        in_order: false,
        credit: entry.replay_credit.clone(),
        on_failure: Standing {
            status: RecoveryStatus::Pending,
            next_recovery_at: Some(at(9000)),
            deferral: Some(crate::model::Deferral::Failure),
        },
        record: record(),
    }
}

pub(super) fn record() -> DecisionRecord {
    let (policy_name, policy_digest) = ("Throttled".to_owned(), "d1".to_owned());
    let ruling = Arc::new(Ruling { policy_name, policy_digest, rule: "{}".to_owned() });
    DecisionRecord { ruling, attempt: 1, inputs: "{}".to_owned() }
}

pub(super) fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// An outbox message that died `seconds` after the start of the story.
pub(super) fn dead(seconds: i64) -> NewDeadLetter {
    NewDeadLetter {
        dead_letter_id: Uuid::now_v7(),
        source_table: SourceTable::Outbox,
        source_id: Uuid::now_v7(),
        stream_id: None,
        message_type: "OrderPlaced".to_owned(),
        destination: Some("orders".to_owned()),
        perspective_name: None,
        envelope: json(r#"{"event_data": {"total": 12.30}, "metadata": {"tenant": "t1"}}"#),
        metadata: json("{}"),
        failure_reason: FailureReason(8),
        error_text: Some("too many requests".to_owned()),
        attempts_when_dlq: 3,
        dead_lettered_at: Some(at(seconds)),
        dead_lettered_by: None,
        recovery_status: None,
        recovery_attempts: None,
        last_recovery_at: None,
        next_recovery_at: None,
        recovered_at: None,
        generation: GENERATION.to_owned(),
        retried_on_generations: None,
        operator_disposition: None,
        operator_notes: None,
        operator_actor: None,
        error_fingerprint: None,
        error_fingerprint_version: None,
        source_row: None,
        source_created_at: None,
        source_position: None,
        incarnation: None,
        replay_credit: None,
        replay_credit_at: None,
        deferral: None,
        policy_errors: None,
        policy_error_digest: None,
        status_note: None,
    }
}
