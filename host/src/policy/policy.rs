//! A loaded policy.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use super::engine::Shared;
use super::member::Member;
use super::read::Content;
use super::session::Session;
use super::{MemberInfo, PolicyFailure, digest, probe};

/// A checked chain, ready to be asked. Clones share it.
#[derive(Clone)]
pub struct Policy {
    loaded: Arc<Loaded>,
}

/// What the clones of a policy share.
pub struct Loaded {
    /// The engine's.
    pub shared: Arc<Shared>,
    /// The chain.
    pub members: Arc<[Member]>,
    /// What the samples took.
    pub peak_memory_bytes: OnceLock<usize>,
    /// What its files held, without the default matrix that stands at the end by itself.
    pub content: Content,
    about: Vec<MemberInfo>,
    loaded_at: Timestamp,
}

impl Loaded {
    /// A chain that was linked at a time.
    pub fn new(shared: Arc<Shared>, members: Arc<[Member]>, content: Content, loaded_at: Timestamp) -> Self {
        let digests = digest::of_chains(&members);
        let about = members.iter().zip(digests).map(|(member, digest)| MemberInfo::of(member, digest)).collect();
        Self { shared, members, content, about, loaded_at, peak_memory_bytes: OnceLock::new() }
    }
}

impl Policy {
    pub(super) fn new(loaded: Loaded) -> Self {
        Self { loaded: Arc::new(loaded) }
    }

    pub(super) fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }

    /// The name of its first member.
    #[must_use]
    pub fn name(&self) -> &str {
        self.about().first().map_or("", |first| &first.name)
    }

    /// The SHA-256 over components, settings and chain, as 64 hex digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.about().first().map_or("", |first| &first.digest)
    }

    /// When it was loaded, by this machine's clock.
    #[must_use]
    pub fn loaded_at(&self) -> Timestamp {
        self.loaded.loaded_at
    }

    /// Its members in the order in which they are asked; with the default matrix at the end when the last one of the
    /// configuration passes questions on.
    #[must_use]
    pub fn about(&self) -> &[MemberInfo] {
        &self.loaded.about
    }

    /// The most bytes of memory that the sample entries took when it was loaded.
    #[must_use]
    pub fn sample_memory_bytes(&self) -> usize {
        self.loaded.peak_memory_bytes.get().copied().unwrap_or(0)
    }

    /// Starts asking at the time of a scan. Nothing is instantiated before the first question.
    #[must_use]
    pub fn session(&self, now: Timestamp) -> Session {
        Session::new(Arc::clone(&self.loaded), now)
    }

    /// Asks about the sample entries again, as [`super::PolicyEngine::load`] does, to tell a policy that fails on
    /// everything from one that fails on some rows.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn probe(&self, now: Timestamp) -> Result<(), PolicyFailure> {
        probe::samples(self, now).await.map(drop)
    }
}
