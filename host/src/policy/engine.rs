//! The engine: what all policies share.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, oneshot};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use super::policy::{Loaded, Policy};
use super::read::{self, Content, ReadMember};
use super::state::GuestState;
use super::threads::GuestThreads;
use super::{LimitError, Limits, LoadError, MemberSource, cache, chain, load, probe, ticker, wasm_config};

/// What an engine is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// What each policy may use.
    pub limits: Limits,
    /// Where compiled code is kept between runs; `None` keeps none. See [`super::default_cache_dir`].
    pub cache_dir: Option<PathBuf>,
    /// How many threads guests run on; at least one is started.
    pub threads: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), cache_dir: None, threads: 2 }
    }
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// wasmtime cannot be set up.
    #[error("the WebAssembly engine cannot be set up: {0}")]
    Wasmtime(String),
    /// The system has no thread left.
    #[error("cannot start the threads that policies run on")]
    Threads(#[source] io::Error),
}

/// Compiles, checks and links policies, and runs them within their limits. One for a process: it holds a pool of
/// instances, a ticker and the threads that guests run on.
#[derive(Clone)]
pub struct PolicyEngine {
    shared: Arc<Shared>,
}

/// A time limit, for the timer and for the epochs.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit {
    /// For the timer.
    pub time: Duration,
    /// For the epochs.
    pub ticks: u64,
}

impl TimeLimit {
    /// What happened, with the limit that it met.
    pub fn exceeded(&self, what: &str) -> String {
        format!("{what}; the limit is {} ms", self.time.as_millis())
    }
}

/// What policies and sessions keep of their engine.
pub struct Shared {
    /// wasmtime's.
    pub engine: Engine,
    /// The default matrix, once it was compiled.
    pub default_matrix: OnceLock<Component>,
    /// Everything that a guest may import.
    pub linker: Linker<GuestState>,
    /// What a policy may use.
    pub limits: Limits,
    /// One question.
    pub call: TimeLimit,
    /// Instantiating a chain.
    pub start: TimeLimit,
    /// Where guests run.
    pub threads: GuestThreads,
    /// Where policies are tried before they count.
    pub trial_thread: GuestThreads,
    /// A permit for each component instance that the pool has room for.
    pub room: Arc<Semaphore>,
}

impl PolicyEngine {
    /// Sets up an engine. A cache folder that cannot be trusted is not used, with a warning.
    ///
    /// # Errors
    ///
    /// A limit is out of range, or the system cannot provide what the engine needs.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let limits = options.limits.checked()?;
        let wasmtime = |error: wasmtime::Error| EngineError::Wasmtime(format!("{error:#}"));
        let engine = wasm_config::engine(&limits, opened_cache(options.cache_dir).as_ref()).map_err(wasmtime)?;
        let linker = chain::linker(&engine).map_err(wasmtime)?;
        let period = ticker::period(&limits);
        ticker::start(&engine, period).map_err(EngineError::Threads)?;
        let limit = |time| TimeLimit { time, ticks: ticker::ticks(time, period) };
        Ok(Self {
            shared: Arc::new(Shared {
                call: limit(limits.call_time),
                start: limit(limits.start_time),
                threads: GuestThreads::start(options.threads).map_err(EngineError::Threads)?,
                trial_thread: GuestThreads::start(1).map_err(EngineError::Threads)?,
                room: Arc::new(Semaphore::new(wasm_config::POOL_INSTANCES as usize)),
                default_matrix: OnceLock::new(),
                engine,
                linker,
                limits,
            }),
        })
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Loads a chain, the first to be asked at the front: reads its files, compiles them, checks them and their
    /// settings, and tries them on sample entries under the limits in force.
    ///
    /// # Errors
    ///
    /// Which member is unfit, and why.
    pub async fn load(&self, chain: Vec<MemberSource>) -> Result<Policy, LoadError> {
        let read = tokio::task::spawn_blocking(move || read::chain(chain)).await;
        self.load_read(read.unwrap_or(Err(LoadError::Ended))?).await
    }

    /// Loads what the files of a chain held, as [`PolicyEngine::load`] does. Compiling has a thread of its own.
    pub(super) async fn load_read(&self, chain: Vec<ReadMember>) -> Result<Policy, LoadError> {
        let content = Content::of(&chain);
        let (done, compiled) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("policy-load".to_owned())
            .spawn(move || drop(done.send(load::members(&shared, chain))))
            .map_err(LoadError::Thread)?;
        let members = compiled.await.map_err(|_| LoadError::Ended)??;
        let now = Timestamp::now();
        let policy = Policy::new(Loaded::new(Arc::clone(&self.shared), members, content, now));
        probe::settings(&policy, now).await?;
        let sampled = probe::samples(&policy, now).await;
        let peak = sampled.map_err(|failure| LoadError::Probe { asked: "about a sample entry", failure })?;
        policy.loaded().peak_memory_bytes.get_or_init(|| peak);
        Ok(policy)
    }
}

fn opened_cache(folder: Option<PathBuf>) -> Option<wasmtime::Cache> {
    let folder = folder?;
    let opened = cache::prepared(&folder)
        .map_err(|reason| reason.to_string())
        .and_then(|folder| wasm_config::cache(folder).map_err(|reason| format!("{reason:#}")));
    opened
        .inspect_err(|reason| {
            tracing::warn!(folder = %folder.display(), reason, "compiled policies are not cached: the folder is not used");
        })
        .ok()
}
