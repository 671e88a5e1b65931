//! Asking a policy about the dead letters of one scan.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::sync::OwnedSemaphorePermit;

use crate::model::Answers;
use crate::model::time::unix_ms;
use crate::model::view::PolicyView;

use super::failure::{FailureKind, PolicyFailure};
use super::instance::ChainInstance;
use super::policy::Loaded;

/// How many instances in a row may fail to start before the rest of a call is given up.
const MAX_START_FAILURES: u32 = 3;

/// One scan's instance of a policy: made on first use, used for every entry, thrown away after any failure.
pub struct Session {
    loaded: Arc<Loaded>,
    now_ms: u64,
    seat: Option<Seat>,
    isolated: bool,
    trying: bool,
}

/// A place in the pool. It travels to the guests' thread and back, so that the place is taken for as long as an
/// instance may be in it.
pub(super) struct Seat {
    instance: Option<ChainInstance>,
    _room: OwnedSemaphorePermit,
}

impl Session {
    pub(super) fn new(loaded: Arc<Loaded>, now: Timestamp) -> Self {
        Self { loaded, now_ms: unix_ms(now), seat: None, isolated: false, trying: false }
    }

    /// The same with a fresh instance for every entry: nothing can carry over from one to the next, at some cost.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// The same on the thread where policies are tried: one that loops in its start holds up no scan.
    pub(super) fn trying(mut self) -> Self {
        self.trying = true;
        self
    }

    /// Asks the three questions about each entry, on a guests' thread. There is one result for each view, in the same
    /// order. A failure concerns its entry alone; the next one is asked in a fresh instance.
    ///
    /// It waits while the pool is full. When it is dropped, the guests' thread ends the call and throws its instance
    /// away.
    pub async fn ask(&mut self, views: Vec<PolicyView>) -> Vec<Result<Answers, PolicyFailure>> {
        let count = views.len();
        let isolated = self.isolated;
        let asked = self.with_seat(move |runtime, loaded, seat, now_ms| {
            runtime.block_on(answers(loaded, &mut seat.instance, now_ms, views, isolated))
        });
        asked.await.unwrap_or_else(|| vec![Err(self.host_failure()); count])
    }

    /// Has each member check its settings.
    ///
    /// # Errors
    ///
    /// The first member that does not answer.
    pub(super) async fn validate(&mut self) -> Result<Vec<Result<(), String>>, PolicyFailure> {
        let said = self.with_seat(|runtime, loaded, seat, now_ms| {
            runtime.block_on(async {
                let mut instance = ChainInstance::start(loaded, now_ms).await?;
                let mut said = Vec::with_capacity(loaded.members.len());
                for place in 0..loaded.members.len() {
                    said.push(instance.validate(place).await?);
                }
                seat.instance = Some(instance);
                Ok(said)
            })
        });
        said.await.unwrap_or_else(|| Err(self.host_failure()))
    }

    /// The most bytes of memory that its instance has had; 0 when there is none.
    pub(super) fn peak_memory_bytes(&self) -> usize {
        self.seat.as_ref().and_then(|seat| seat.instance.as_ref()).map_or(0, ChainInstance::peak_memory_bytes)
    }

    /// Runs a task on a guests' thread with a seat; `None` when the task panicked.
    pub(super) async fn with_seat<T: Send + 'static>(
        &mut self,
        task: impl FnOnce(&Runtime, &Loaded, &mut Seat, u64) -> T + Send + 'static,
    ) -> Option<T> {
        let mut seat = match self.seat.take() {
            Some(seat) => seat,
            None => Seat { instance: None, _room: room(Arc::clone(&self.loaded)).await? },
        };
        let (loaded, now_ms) = (Arc::clone(&self.loaded), self.now_ms);
        let shared = &self.loaded.shared;
        let threads = if self.trying { &shared.trial_thread } else { &shared.threads };
        let run = threads.run(move |runtime| {
            let result = task(runtime, &loaded, &mut seat, now_ms);
            (seat, result)
        });
        let (seat, result) = run.await?;
        self.seat = Some(seat);
        Some(result)
    }

    pub(super) fn host_failure(&self) -> PolicyFailure {
        PolicyFailure {
            kind: FailureKind::Host,
            member: self.loaded.members.first().map_or_else(String::new, |first| first.name.clone()),
            message: "the thread that it ran on failed; this is a fault of the host".to_owned(),
        }
    }
}

/// Waits until the pool has room for the whole chain. It borrows no session, whose instance must not be seen by two
/// threads at once, so that callers may wait on any thread.
async fn room(loaded: Arc<Loaded>) -> Option<OwnedSemaphorePermit> {
    let members = u32::try_from(loaded.members.len()).unwrap_or(u32::MAX);
    Arc::clone(&loaded.shared.room).acquire_many_owned(members).await.ok()
}

async fn answers(
    loaded: &Loaded,
    instance: &mut Option<ChainInstance>,
    now_ms: u64,
    views: Vec<PolicyView>,
    isolated: bool,
) -> Vec<Result<Answers, PolicyFailure>> {
    let mut answers = Vec::with_capacity(views.len());
    let mut start_failures = 0;
    for view in views {
        if start_failures == MAX_START_FAILURES
            && let Some(last) = answers.last().cloned()
        {
            answers.push(last);
            continue;
        }
        let running = match instance.take() {
            Some(running) => Ok(running),
            None => ChainInstance::start(loaded, now_ms).await,
        };
        let answer = match running {
            Err(failure) => {
                start_failures += 1;
                Err(failure)
            }
            Ok(mut running) => {
                start_failures = 0;
                let answer = running.ask(view).await;
                if answer.is_ok() && !isolated {
                    *instance = Some(running);
                }
                answer
            }
        };
        answers.push(answer);
    }
    answers
}
