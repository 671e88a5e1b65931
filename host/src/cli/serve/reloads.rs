//! Keeping the policy in use what the configuration and its files say.

use std::path::PathBuf;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::service;
use crate::cli::in_use;
use crate::cli::settings::chain;
use crate::cli::signals::Hangups;
use crate::config::{Config, ConfigSource};
use crate::policy::{FileWatch, MemberSource, PolicyEngine, Refusal, Reload, Reloader};
use crate::recovery::Scanner;
use crate::telemetry::{Health, Metrics, Rejected};

/// Reloads the policy when the configuration's file, a policy's file or a settings' file changes, and at SIGHUP.
pub struct Reloads {
    source: ConfigSource,
    /// The configuration that everything but the chain was started with.
    started: Config,
    /// The last one whose other changes were told.
    told: Option<Config>,
    /// Why the configuration was refused last.
    refused: Option<String>,
    chain: Vec<MemberSource>,
    reloader: Reloader,
    watch: FileWatch,
    metrics: Metrics,
    health: Health,
}

impl Reloads {
    /// Reloads into the place that the scanner's policy is in.
    pub fn new(source: ConfigSource, started: Config, engine: PolicyEngine, scanner: &Scanner) -> Self {
        Self {
            chain: chain(&started.policy),
            reloader: Reloader::new(engine, scanner.policy.clone()),
            watch: FileWatch::new(),
            metrics: scanner.metrics.clone(),
            health: scanner.health.clone(),
            source,
            started,
            told: None,
            refused: None,
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
                () = self.watch.changed() => false,
            };
            if !asked {
                self.reload(false).await;
                continue;
            }
            tracing::info!("told to reload by SIGHUP");
            service::reloading();
            self.refused = None;
            self.reloader.forget_refusal();
            self.reload(true).await;
            service::ready("reloaded");
        }
    }

    /// One reload; `asked` for by a signal, it is told also when nothing has changed.
    async fn reload(&mut self, asked: bool) {
        let good = self.read_configuration();
        self.watch.watch(self.files());
        match self.reloader.reload(&self.chain).await {
            Reload::Loaded(policy) => {
                self.metrics.reload("loaded");
                in_use::tell(&policy, &self.metrics, &self.health);
            }
            Reload::Refused(refusal) => self.reject(refusal),
            Reload::Unchanged if good => {
                let stood = self.health.accepted();
                self.metrics.gauges().rejected(None);
                if stood || asked {
                    self.metrics.reload("unchanged");
                    tracing::info!("the policy's files hold what is in use");
                }
            }
            Reload::Unchanged | Reload::RefusedBefore => {}
        }
    }

    /// Takes the chain from the configuration as it is now; whether it could be read. What else changed in it needs a
    /// restart, and is told once.
    fn read_configuration(&mut self) -> bool {
        let config = match self.source.read() {
            Ok(config) => config,
            Err(error) => {
                let reason = error.to_string();
                if self.refused.as_ref() != Some(&reason) {
                    self.reject(Refusal { digest: None, reason: reason.clone() });
                    self.refused = Some(reason);
                }
                return false;
            }
        };
        self.refused = None;
        self.chain = chain(&config.policy);
        let mut as_started = config.clone();
        as_started.policy.chain.clone_from(&self.started.policy.chain);
        if as_started != self.started && self.told.as_ref() != Some(&config) {
            tracing::warn!(
                "the configuration changed beyond the chain of policies and their settings: restart for that"
            );
            self.told = Some(config);
        }
        true
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = self.chain.iter().flat_map(MemberSource::files).map(PathBuf::from);
        files.chain(self.source.file()).collect()
    }

    fn reject(&self, Refusal { digest, reason }: Refusal) {
        let at = Timestamp::now();
        self.metrics.reload("rejected");
        self.metrics.gauges().rejected(Some((digest.as_deref(), at)));
        self.health.rejected(Rejected { digest: digest.clone(), at, reason: reason.clone() });
        tracing::error!(digest, reason, "policy rejected; the last good one serves on");
    }
}
