//! Opening files, sharing them between processes, signals.

use std::time::Duration;

use uuid::Uuid;

use super::{File, MIGRATIONS, at, dead, empty, migrated};
use crate::model::SourceTable;
use crate::store::open::Options;
use crate::store::sqlite::SqliteStore;
use crate::store::{Import, OperatorStore, RecoveryStore, Rescued, Signal, StoreError, Verbs};

async fn error_of(url: &str, create: bool) -> StoreError {
    SqliteStore::connect(url, &Options { create, ..Options::default() }).await.expect_err("it opened")
}

#[tokio::test]
async fn a_path_that_cannot_be_a_store_is_told_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(
        path("text.db"),
        "this is no database, although it has more than a hundred bytes, so that nothing \
        takes it for a file that is merely empty",
    )
    .unwrap();
    std::fs::write(path("closed.db"), "").unwrap();
    let mut permissions = std::fs::metadata(path("closed.db")).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(path("closed.db"), permissions).unwrap();
    for (place, part) in [
        (path("text.db"), "no SQLite database"),
        (path("closed.db"), "read-only; make it writable"),
        (path(""), "it is a folder"),
        (path("missing/store.db"), "there is no folder"),
        ("/proc/store.db".to_owned(), "cannot be opened or created"),
        (":memory:".to_owned(), "in memory"),
    ] {
        let error = error_of(&format!("sqlite://{place}"), true).await;
        assert!(matches!(error, StoreError::Unusable { .. }) && error.to_string().contains(part), "{error}");
    }
    for url in ["sqlite://", "sqlite://a.db?mode=rwc"] {
        assert!(matches!(error_of(url, true).await, StoreError::Url { .. }), "{url}");
    }
}

#[tokio::test]
async fn a_missing_file_is_left_missing_unless_it_may_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let url = format!("sqlite://{}", path.display());
    assert!(matches!(error_of(&url, false).await, StoreError::NotMigrated { .. }));
    assert!(!path.exists());
    let store = SqliteStore::connect(&url, &Options { create: true, ..Options::default() }).await.unwrap();
    store.ping().await.unwrap();
    drop(store);
    assert!(path.exists());
}

async fn second(file: &File) -> SqliteStore {
    SqliteStore::connect(&file.url, &Options::default()).await.unwrap()
}

#[tokio::test]
async fn a_second_recovering_host_is_refused_until_the_first_is_gone() {
    let file = migrated().await;
    let other = second(&file).await;
    file.store.become_recovering_host().await.unwrap();
    file.store.become_recovering_host().await.unwrap();
    assert!(matches!(other.become_recovering_host().await, Err(StoreError::AnotherHost { .. })));
    drop(file.store);
    other.become_recovering_host().await.unwrap();
}

#[tokio::test]
async fn a_new_host_dissolves_the_batches_of_dead_ones_at_once() {
    let file = migrated().await;
    file.import(&[dead(0)]).await;
    file.begin_all(at(10)).await;
    let other = second(&file).await;
    assert_eq!(other.rescue(5, Some(at(11))).await.unwrap(), Rescued::default());
    other.become_recovering_host().await.unwrap();
    assert_eq!(
        other.rescue(5, Some(at(11))).await.unwrap(),
        Rescued { batches: 1, attempts: 1, policy_errors: 0, held: vec![] }
    );
    file.claim(9, at(12)).await;
    assert_eq!(other.rescue(5, Some(at(13))).await.unwrap(), Rescued::default());
}

#[tokio::test]
async fn the_clock_is_the_systems_to_the_microsecond_unless_another_is_given() {
    let file = migrated().await;
    let id = Uuid::now_v7();
    file.outbox(id, "{}").await;
    let before = crate::model::time::stored(jiff::Timestamp::now());
    let mut letter = dead(0);
    letter.dead_lettered_at = None;
    file.store.import(&Import { rows: std::slice::from_ref(&letter), now: None }).await.unwrap();
    let died = file.entry(letter.dead_letter_id).await.dead_lettered_at;
    assert!(died >= before && died <= jiff::Timestamp::now());
    let moved = file.die(SourceTable::Outbox, id, at(7)).await;
    assert_eq!(file.entry(moved).await.dead_lettered_at, at(7));
}

#[tokio::test]
async fn own_changes_and_those_of_others_signal_and_the_recovery_itself_does_not() {
    let file = migrated().await;
    let mut signals = file.store.signals().await.unwrap();
    let next = |signals: &mut tokio::sync::mpsc::Receiver<Signal>| signals.try_recv().ok();
    file.import(&[dead(0)]).await;
    assert_eq!(next(&mut signals), Some(Signal::Ready));
    let (batch, entries) = file.begin_all(at(10)).await;
    file.settle(batch, &entries, at(11)).await;
    let quiet = tokio::time::timeout(Duration::from_millis(400), signals.recv()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    second(&file).await.import(&Import { rows: &[dead(1)], now: None }).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(5), signals.recv()).await;
    assert_eq!(woken.unwrap(), Some(Signal::Ready));
}

#[tokio::test]
async fn a_call_that_is_dropped_half_way_leaves_the_store_usable() {
    let file = migrated().await;
    let letters: Vec<_> = (0..500).map(dead).collect();
    let import = Import { rows: &letters, now: None };
    for polls in 1..40 {
        let mut call = std::pin::pin!(file.store.import(&import));
        for _ in 0..polls {
            if tokio::time::timeout(Duration::from_micros(200), &mut call).await.is_ok() {
                break;
            }
        }
        if file.text("select count(*) from wh_dead_letters").await.as_deref() != Some("0") {
            break;
        }
    }
    let imported = file.store.import(&import).await.unwrap();
    assert!(imported.imported == 500 || imported.skipped.len() == 500);
}

#[tokio::test]
async fn another_process_that_keeps_the_file_locked_is_an_outage_and_counts_nothing() {
    let file = migrated().await;
    file.import(&[dead(0)]).await;
    let (batch, entries) = file.begin_all(at(10)).await;
    file.sql("create trigger full before insert on wh_outbox begin select 1; end").await;
    let mut other = file.raw().await;
    sqlx::raw_sql("begin immediate").execute(&mut other).await.unwrap();
    let attempts: Vec<_> = entries.iter().map(super::attempt).collect();
    let settle = crate::store::Settle {
        batch_id: batch,
        attempts: &attempts,
        streams: crate::store::StreamTerms::default(),
        refusal: None,
        now: Some(at(11)),
    };
    let error = file.store.settle(&settle).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    assert_eq!(file.store.settle(&settle).await.unwrap()[0].outcome, crate::store::Outcome::Recovered);
    assert_eq!(file.entry(entries[0].dead_letter_id).await.recovery_attempts, 1);
}

#[tokio::test]
async fn two_processes_that_migrate_at_once_both_succeed() {
    let file = empty().await;
    let other = second(&file).await;
    let (one, two) = tokio::join!(file.store.migrate(false), other.migrate(false));
    assert_eq!(one.unwrap().len() + two.unwrap().len(), MIGRATIONS.len());
    file.store.mark_dead_letter_holding(Uuid::nil()).await.unwrap();
}
