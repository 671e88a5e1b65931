//! What a session's guests share, on the host's side.

use std::sync::Arc;

use uuid::Uuid;
use wasmtime::Store;
use wasmtime::component::{Instance, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::Limits;
use super::bindings::exports::reprieve::policy::recovery::Guest;
use super::guest_log::GuestLog;
use super::member::Member;
use super::usage::Usage;
use super::wasi::{self, Captured};

/// A member that was instantiated.
#[derive(Clone)]
pub struct Running {
    /// The instance.
    pub instance: Instance,
    /// Its answers to the three questions.
    pub recovery: Arc<Guest>,
}

/// The data of a store: one for each instance of a chain.
pub struct GuestState {
    /// The chain, the first to be asked at the front.
    pub members: Arc<[Member]>,
    /// The member whose code runs. After a failure: the one that failed.
    pub current: usize,
    /// What was instantiated, by its place in the chain.
    pub running: Vec<Option<Running>>,
    /// The scan's time.
    pub now_ms: u64,
    /// What they use together.
    pub usage: Usage,
    /// What they say.
    pub log: GuestLog,
    /// What they wrote to stdout and stderr and was not passed on yet.
    pub output: Captured,
    /// Made when a guest first calls WASI, which most never do.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

impl GuestState {
    /// The state of a chain of which nothing is instantiated.
    pub fn new(members: Arc<[Member]>, limits: &Limits, now_ms: u64) -> Self {
        Self {
            current: 0,
            running: vec![None; members.len()],
            now_ms,
            usage: Usage::new(limits, members.len()),
            log: GuestLog::new(limits),
            output: Captured::new(limits.log_bytes),
            wasi: None,
            table: ResourceTable::new(),
            members,
        }
    }

    /// Starts on another entry: its share of the log is whole, and random numbers start from their seed, so that what
    /// came before does not matter.
    pub fn begin(&mut self, entry: Option<Uuid>) {
        self.log.begin(entry);
        self.wasi = None;
    }

    /// The member whose code runs.
    pub fn member(&self) -> Option<&Member> {
        self.members.get(self.current)
    }

    /// The name of the member whose code runs.
    pub fn member_name(&self) -> &str {
        self.member().map_or("", |member| &member.name)
    }

    /// A line of the running member for the host's log.
    pub fn say(&mut self, level: tracing::Level, text: &str) {
        let policy = self.members.get(self.current).map_or("", |member| &member.name);
        self.log.write(policy, level, text);
    }

    /// Passes on what the running member wrote to stdout and stderr.
    pub fn pass_on_output(&mut self) {
        if let Some(text) = self.output.take() {
            self.say(tracing::Level::INFO, &String::from_utf8_lossy(&text));
        }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let ctx = self.wasi.get_or_insert_with(|| wasi::empty_context(self.now_ms, &self.output));
        WasiCtxView { ctx, table: &mut self.table }
    }
}

/// The most bytes that one host call may take from or give to a guest: an entry fits several times.
const HOST_CALL_BYTES: usize = 1 << 20;
/// The most handles, such as pollables, that the guests of a store may have.
const MAX_HANDLES: usize = 1000;

/// A store with the limits in force.
pub fn store(engine: &wasmtime::Engine, state: GuestState) -> Store<GuestState> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.usage);
    store.set_hostcall_fuel(HOST_CALL_BYTES);
    store.set_max_component_handles(MAX_HANDLES);
    store.epoch_deadline_trap();
    store
}
