//! Putting what a chain's files hold in use, or telling why not.

use std::time::Duration;

use super::read::{self, Content, ReadMember};
use super::{LivePolicy, LoadError, MemberSource, Policy, PolicyEngine};

/// A file that is refused is looked at again after so long: it may have been half written.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// A file that changes at each look is left for the next reload after so many looks.
const MOST_LOOKS: usize = 3;

/// How a reload ended.
pub enum Reload {
    /// The files hold what is in use.
    Unchanged,
    /// They hold something else, which is in use from now on.
    Loaded(Policy),
    /// They hold something that is no fit policy; what was in use stays in use.
    Refused(Refusal),
    /// They hold what was refused at the last reload.
    RefusedBefore,
}

/// Why the content of a chain's files is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The SHA-256 of the file at fault, in hex; `None` when it could not be read, or no file is at fault.
    pub digest: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether the same files may pass another time, since this machine was too busy.
    pub may_pass: bool,
}

/// What the last refusal was about.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Content(Content),
    /// What could not be read, in words.
    Unreadable(String),
}

/// Loads a chain's files into the place of the policy in use whenever it is told to. Whatever the files hold, there is
/// a checked policy in use all the time.
pub struct Reloader {
    engine: PolicyEngine,
    live: LivePolicy,
    refused: Option<Refused>,
}

impl Reloader {
    /// A reloader of the policy in this place.
    #[must_use]
    pub const fn new(engine: PolicyEngine, live: LivePolicy) -> Self {
        Self { engine, live, refused: None }
    }

    /// Reads the files of a chain and, when they hold something else than what is in use, compiles, checks and tries
    /// it, and only then puts it in use, unless they hold another thing by then. Refusing takes a second look, a tenth of
    /// a second later.
    pub async fn reload(&mut self, chain: &[MemberSource]) -> Reload {
        let mut read = read_all(chain).await;
        for look in 1.. {
            let seen = seen(&read);
            if matches!(&seen, Refused::Content(content) if *content == self.live.current().loaded().content) {
                self.refused = None;
                return Reload::Unchanged;
            }
            if self.refused.as_ref() == Some(&seen) {
                return Reload::RefusedBefore;
            }
            let loaded = match read {
                Ok(read) => self.engine.load_read(read).await,
                Err(error) => Err(error),
            };
            if loaded.is_err() {
                tokio::time::sleep(SECOND_LOOK).await;
            }
            // A large component takes seconds to compile: what it was replaced by meanwhile counts.
            read = read_all(chain).await;
            if self::seen(&read) != seen && look < MOST_LOOKS {
                continue;
            }
            return match loaded {
                Ok(policy) => {
                    self.live.replace(policy.clone());
                    self.refused = None;
                    Reload::Loaded(policy)
                }
                Err(error) => self.refuse(&error, seen),
            };
        }
        Reload::RefusedBefore
    }

    fn refuse(&mut self, error: &LoadError, seen: Refused) -> Reload {
        let digest = match &seen {
            Refused::Content(content) => content.sha256(error),
            Refused::Unreadable(_) => error.sha256(),
        };
        let refusal = Refusal { digest: digest.map(str::to_owned), reason: error.told(), may_pass: error.may_pass() };
        self.refused = Some(seen);
        Reload::Refused(refusal)
    }

    /// Forgets what was refused, so that the next reload tells of it again.
    pub fn forget_refusal(&mut self) {
        self.refused = None;
    }
}

/// Reads on a thread where waiting for a disk holds nobody up.
async fn read_all(chain: &[MemberSource]) -> Result<Vec<ReadMember>, LoadError> {
    let chain = chain.to_vec();
    tokio::task::spawn_blocking(move || read::chain(chain)).await.unwrap_or(Err(LoadError::Ended))
}

fn seen(read: &Result<Vec<ReadMember>, LoadError>) -> Refused {
    match read {
        Ok(read) => Refused::Content(Content::of(read)),
        Err(error) => Refused::Unreadable(error.told()),
    }
}
