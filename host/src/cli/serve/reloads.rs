//! Keeping the policy in use what the configuration and its files say.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::refusals::Refusals;
use super::service;
use crate::cli::in_use;
use crate::cli::settings::chain;
use crate::cli::signals::Hangups;
use crate::config::{Config, ConfigError, ConfigSource};
use crate::policy::{FileWatch, MemberSource, PolicyEngine, Refusal, Reload, Reloader};
use crate::recovery::Scanner;
use crate::telemetry::{Health, Metrics};

/// A file that this machine was too busy to try is tried again after so long, and so often.
const RETRY_AFTER: Duration = Duration::from_secs(10);
const MOST_RETRIES: u32 = 3;

/// Reloads the policy when the configuration's file, a policy's file or a settings' file changes, and at SIGHUP.
pub struct Reloads {
    source: ConfigSource,
    /// The configuration that everything but the chain was started with.
    started: Config,
    /// The last one whose other changes were told.
    told: Option<Config>,
    chain: Vec<MemberSource>,
    reloader: Reloader,
    /// Away only while it is being changed.
    watch: Option<FileWatch>,
    refusals: Refusals,
    retry: Retry,
    metrics: Metrics,
    health: Health,
}

/// When a refused file is tried again without having changed.
#[derive(Default)]
struct Retry {
    at: Option<Instant>,
    made: u32,
}

impl Reloads {
    /// Reloads into the place that the scanner's policy is in.
    pub fn new(source: ConfigSource, started: Config, engine: PolicyEngine, scanner: &Scanner) -> Self {
        Self {
            chain: chain(&started.policy),
            reloader: Reloader::new(engine, scanner.policy.clone()),
            watch: Some(FileWatch::new()),
            refusals: Refusals::new(scanner.metrics.clone(), scanner.health.clone()),
            retry: Retry::default(),
            metrics: scanner.metrics.clone(),
            health: scanner.health.clone(),
            source,
            started,
            told: None,
        }
    }

    /// Reloads until `shutdown` is cancelled.
    pub async fn run(mut self, mut hangups: Hangups, shutdown: CancellationToken) {
        // Whatever changed between the start and the first watch.
        self.reload(false).await;
        loop {
            let asked = tokio::select! {
                () = shutdown.cancelled() => return,
                () = hangups.next() => true,
                () = changed(self.watch.as_ref()) => false,
                () = self.retry.due() => {
                    self.reloader.forget_refusal();
                    false
                }
            };
            if !asked {
                self.reload(false).await;
                continue;
            }
            tracing::info!("told to reload by SIGHUP");
            service::reloading();
            self.reloader.forget_refusal();
            self.refusals.forget_configuration();
            self.reload(true).await;
            service::ready(if self.refusals.stand() { "serving; the last reload was rejected" } else { "reloaded" });
        }
    }

    /// One reload; `asked` for by a signal, it is told also when nothing has changed.
    async fn reload(&mut self, asked: bool) {
        // Before anything is read, so that what changes from now on is noticed.
        self.watch_files(true).await;
        let former = self.chain.clone();
        self.read_configuration().await;
        if self.chain != former {
            self.watch_files(false).await;
        }
        self.retry.at = None;
        match self.reloader.reload(&self.chain).await {
            Reload::Loaded(policy) => {
                self.retry = Retry::default();
                self.metrics.reload("loaded");
                self.refusals.chain_accepted();
                in_use::tell(&policy, &self.metrics, &self.health);
            }
            Reload::Refused(refusal) => {
                self.retry.after(&refusal);
                self.refusals.chain_refused(refusal);
            }
            Reload::Unchanged => {
                self.retry = Retry::default();
                if self.refusals.chain_accepted() || asked {
                    self.metrics.reload("unchanged");
                    tracing::info!("the policy's files hold what is in use");
                }
            }
            Reload::RefusedBefore => {}
        }
    }

    /// Takes the chain from the configuration as it is now. What else changed in it needs a restart, and is told once.
    async fn read_configuration(&mut self) {
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || source.is_repeatable().then(|| source.read())).await;
        match read.ok().flatten() {
            None => {}
            Some(Err(error)) => self.refuse_configuration(&error),
            Some(Ok(config)) => {
                self.refusals.configuration_accepted();
                self.chain = chain(&config.policy);
                let mut as_started = config.clone();
                as_started.policy.chain.clone_from(&self.started.policy.chain);
                if as_started != self.started && self.told.as_ref() != Some(&config) {
                    tracing::warn!(
                        "the configuration changed beyond the chain of policies and their settings: restart for that"
                    );
                    self.told = Some(config);
                }
            }
        }
    }

    fn refuse_configuration(&mut self, error: &ConfigError) {
        self.refusals.configuration_refused(Refusal { digest: None, reason: error.to_string(), may_pass: false });
    }

    /// Watches the files that count now, on a thread where waiting for a disk holds nobody up; before they are read, they
    /// are looked at.
    async fn watch_files(&mut self, look: bool) {
        let files = self.chain.iter().flat_map(MemberSource::files).map(PathBuf::from);
        let files: Vec<PathBuf> = files.chain(self.source.file()).collect();
        let Some(mut watch) = self.watch.take() else { return };
        let watched = tokio::task::spawn_blocking(move || {
            watch.watch(files);
            if look {
                watch.look();
            }
            watch
        });
        self.watch = watched.await.ok();
    }
}

async fn changed(watch: Option<&FileWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

impl Retry {
    async fn due(&self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn after(&mut self, refusal: &Refusal) {
        if refusal.may_pass && self.made < MOST_RETRIES {
            self.made += 1;
            self.at = Some(Instant::now() + RETRY_AFTER);
        }
    }
}
