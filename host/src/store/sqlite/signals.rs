//! Signals: what this process does, at once; what others commit, seen every tenth of a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use super::values::Cell;
use crate::store::Signal;

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// A subscriber that has this many signals before it needs no more.
const QUEUE: usize = 16;

/// Changes with each commit of another connection, and not with those of the connection that asks. Asked on the
/// writer's connection, it leaves out what this process wrote itself.
const DATA_VERSION: &str = "pragma data_version";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("signals::DATA_VERSION", DATA_VERSION)];

type Writer = Arc<tokio::sync::Mutex<Option<SqliteConnection>>>;

/// The subscribers of one store.
#[derive(Debug, Default)]
pub(super) struct Signals {
    subscribers: Mutex<Vec<Sender<Signal>>>,
}

impl Signals {
    /// Tells every subscriber that rows may be due.
    pub(super) fn ready(&self) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| !matches!(subscriber.try_send(Signal::Ready), Err(TrySendError::Closed(_))));
    }

    /// A new subscription; it ends when the receiver is dropped.
    pub(super) async fn subscribe(&self, writer: &Writer) -> Receiver<Signal> {
        let (sender, receiver) = channel(QUEUE);
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(sender.clone());
        let seen = data_version(writer).await.ok().flatten();
        tokio::spawn(watch(Arc::clone(writer), sender, seen));
        receiver
    }
}

async fn watch(writer: Writer, sender: Sender<Signal>, mut seen: Option<i64>) {
    let mut lost = false;
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let signal = match data_version(&writer).await {
            Ok(_) if lost => Some(Signal::Restored),
            Ok(version) if version == seen => None,
            Ok(version) => {
                seen = version;
                Some(Signal::Ready)
            }
            Err(_) if lost => None,
            Err(_) => Some(Signal::Lost),
        };
        lost = match signal {
            Some(Signal::Lost) => true,
            Some(Signal::Restored) => false,
            Some(Signal::Ready) | None => lost,
        };
        if let Some(signal) = signal
            && matches!(sender.try_send(signal), Err(TrySendError::Closed(_)))
        {
            return;
        }
    }
}

/// `None` while there is no connection: after a fault the next write opens another.
async fn data_version(writer: &Writer) -> Result<Option<i64>, sqlx::Error> {
    let mut slot = writer.lock().await;
    let Some(conn) = slot.as_mut() else {
        return Ok(None);
    };
    let row = sqlx::query(DATA_VERSION).fetch_one(conn).await?;
    Ok(Cell::at(&row, 0).integer())
}
