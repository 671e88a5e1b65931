//! An instantiated chain and the calls of it, each within its limits.

use std::ops::AsyncFnOnce;
use std::sync::Arc;

use tokio::time::timeout;
use uuid::Uuid;
use wasmtime::Store;

use crate::model::Answers;
use crate::model::view::PolicyView;

use super::bindings::exports::reprieve::policy::recovery::Guest;
use super::engine::TimeLimit;
use super::failure::{FailureKind, PolicyFailure, classified, one_line};
use super::guest_log::visible;
use super::policy::Loaded;
use super::state::GuestState;
use super::{chain, convert, state};

/// One instance of each member of a chain that questions can reach. After a failure it must be thrown away.
pub struct ChainInstance {
    store: Store<GuestState>,
    first: Arc<Guest>,
    call: TimeLimit,
    can_wait: bool,
    name_chars: usize,
}

impl ChainInstance {
    /// Instantiates a chain.
    ///
    /// # Errors
    ///
    /// A member does not start, or not in time.
    pub async fn start(loaded: &Loaded, now_ms: u64) -> Result<Self, PolicyFailure> {
        let shared = &loaded.shared;
        let can_wait = loaded.members.iter().any(|member| member.shape.can_wait());
        let fresh = GuestState::new(Arc::clone(&loaded.members), &shared.limits, now_ms);
        let mut store = state::store(&shared.engine, fresh);
        let started = limited(&mut store, shared.start, can_wait, async |store| chain::instantiate(store).await).await;
        let first = started.map_err(|(kind, message)| {
            let cause = if kind == FailureKind::InvalidAnswer { String::new() } else { format!("{kind}: ") };
            blamed(&store, FailureKind::Start, format!("does not start: {cause}{message}"))
        })?;
        Ok(Self { store, first, call: shared.call, can_wait, name_chars: shared.limits.name_chars })
    }

    /// Asks the three questions about one entry.
    ///
    /// # Errors
    ///
    /// A member does not answer, not in time or not sensibly.
    pub async fn ask(&mut self, view: PolicyView) -> Result<Answers, PolicyFailure> {
        self.begin(Some(view.entry.dead_letter_id));
        let entry = convert::entry(view);
        let first = Arc::clone(&self.first);
        let should_recover =
            self.call("should-recover", async |store| first.call_should_recover(store, &entry).await).await?;
        let policy = self.call("get-policy", async |store| first.call_get_policy(store, &entry).await).await?;
        let mode = self.call("get-stream-mode", async |store| first.call_get_stream_mode(store, &entry).await).await?;
        let policy = convert::policy(policy, self.name_chars)
            .map_err(|message| blamed(&self.store, FailureKind::InvalidAnswer, message))?;
        Ok(Answers { should_recover, policy, stream_mode: convert::stream_mode(mode) })
    }

    /// Has a member check its settings; what it says against them is the inner error.
    ///
    /// # Errors
    ///
    /// The member does not answer, or not in time.
    pub async fn validate(&mut self, place: usize) -> Result<Result<(), String>, PolicyFailure> {
        let members = Arc::clone(&self.store.data().members);
        let running = self.store.data().running.get(place).and_then(|running| running.as_ref());
        let (Some(member), Some(running)) = (members.get(place), running) else { return Ok(Ok(())) };
        let Some(validate) = &member.validate else { return Ok(Ok(())) };
        let instance = running.instance;
        self.begin(None);
        self.store.data_mut().current = place;
        let said = limited(&mut self.store, self.call, self.can_wait, async |store| {
            let guest = validate.load(&mut *store, &instance)?;
            guest.call_validate(store, &member.settings).await
        });
        let said = said.await.map_err(|(kind, message)| blamed(&self.store, kind, message))?;
        self.store.data_mut().pass_on_output();
        Ok(said.map_err(|reason| visible(&reason)))
    }

    /// The most bytes of memory that its members have had together.
    pub fn peak_memory_bytes(&self) -> usize {
        self.store.data().usage.peak_memory_bytes
    }

    fn begin(&mut self, entry: Option<Uuid>) {
        self.store.data_mut().begin(entry);
    }

    async fn call<T>(
        &mut self,
        name: &'static str,
        question: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, PolicyFailure> {
        self.store.data_mut().current = 0;
        let answer = limited(&mut self.store, self.call, self.can_wait, question).await;
        self.store.data_mut().pass_on_output();
        answer.map_err(|(kind, message)| blamed(&self.store, kind, format!("{name}: {message}")))
    }
}

/// Limits what guests do twice: their code by epochs, a wait inside of a host call by the timer, if there can be one.
async fn limited<T>(
    store: &mut Store<GuestState>,
    limit: TimeLimit,
    can_wait: bool,
    call: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
) -> Result<T, (FailureKind, String)> {
    store.set_epoch_deadline(limit.ticks);
    let called = if can_wait { timeout(limit.time, call(store)).await } else { Ok(call(store).await) };
    match called {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            tracing::debug!(error = one_line(&error), trace = ?error, "a call of a policy failed");
            let (kind, message) = classified(&error);
            let message = visible(&message);
            Err((kind, if kind == FailureKind::Timeout { limit.exceeded(&message) } else { message }))
        }
        Err(_) => Err((FailureKind::Timeout, limit.exceeded("ran out of time while it waited"))),
    }
}

fn blamed(store: &Store<GuestState>, kind: FailureKind, message: String) -> PolicyFailure {
    PolicyFailure { kind, member: store.data().member_name().to_owned(), message }
}
