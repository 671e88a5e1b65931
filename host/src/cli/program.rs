//! What every command starts from: the configuration, the store, the worker's parts.

use std::ffi::OsString;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::args::{Cli, Command};
use super::exit::DoesNotHold;
use super::in_use;
use super::output::Output;
use super::settings::{chain, engine_options, log_format, recovery_options};
use crate::config::{Config, ConfigSource, Overrides};
use crate::model::OnPolicyError;
use crate::policy::{LivePolicy, MemberSource, Origin, Policy, PolicyEngine};
use crate::recovery::{Generation, Scanner};
use crate::store::SharedStore;
use crate::store::open::{Options, open, redact};
use crate::telemetry::{Health, Metrics, logs};

/// The program once its arguments and its configuration are read.
pub struct Program {
    /// The configuration, with flags and environment in their places.
    pub config: Config,
    /// Where it was read from.
    pub source: ConfigSource,
    /// The store that was named by a flag.
    pub store_flag: Option<String>,
    /// Whether data is printed as JSON.
    pub json: bool,
}

/// Who a scan asks.
pub struct Policies {
    /// What they were loaded with.
    pub engine: PolicyEngine,
    policy: Policy,
    /// Who is asked about a row on which the policy fails.
    fallback: Option<Policy>,
}

impl Program {
    /// Reads the configuration and starts the log.
    pub fn load(cli: &Cli) -> anyhow::Result<Self> {
        let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let source = ConfigSource::new(cli.global.config.clone(), environment, overrides(cli));
        let config = source.read()?;
        logs::start(log_format(config.log.format), level(cli, &config))?;
        Ok(Self { config, source, store_flag: cli.global.store.clone(), json: cli.global.json })
    }

    /// Standard output in the form that was asked for.
    pub fn output(&self) -> Output {
        Output::new(self.json)
    }

    /// The store's URL without its password.
    pub fn store_name(&self) -> String {
        redact(&self.config.store.url)
    }

    /// The store, whose schema must be there.
    pub async fn store(&self) -> anyhow::Result<SharedStore> {
        let store = self.open(&self.config.store.url, false).await?;
        store.check_schema().await?;
        Ok(store)
    }

    /// The store, which is created when it is a file that is not there. It may be without a schema.
    pub async fn new_store(&self) -> anyhow::Result<SharedStore> {
        self.open(&self.config.store.url, true).await
    }

    /// A store by its URL.
    pub async fn open(&self, url: &str, create: bool) -> anyhow::Result<SharedStore> {
        Ok(open(url, &Options { create, pooled: !self.config.recovery.signals, ..Options::default() }).await?)
    }

    /// The store, whose schema must be there, for a command that changes nothing.
    pub async fn store_to_read(&self) -> anyhow::Result<SharedStore> {
        let pooled = !self.config.recovery.signals;
        let options = Options { pooled, read_only: true, ..Options::default() };
        let store = open(&self.config.store.url, &options).await?;
        store.check_schema().await?;
        Ok(store)
    }

    /// Refuses when recovery is switched off.
    pub fn recovery_enabled(&self) -> anyhow::Result<()> {
        if self.config.recovery.enabled {
            return Ok(());
        }
        Err(DoesNotHold("recovery is switched off: [recovery] enabled = false".to_owned()).into())
    }

    /// The generation, read from its file if it stands in one.
    pub async fn generation(&self) -> anyhow::Result<Generation> {
        let recovery = &self.config.recovery;
        let generation = match (&recovery.generation, &recovery.generation_file) {
            (None, Some(file)) => Generation::file(file.clone()),
            (tag, _) => Generation::fixed(tag.clone()),
        };
        generation.refresh().await.map_err(anyhow::Error::msg)?;
        Ok(generation)
    }

    /// The tag that new dead letters get.
    pub async fn generation_tag(&self) -> anyhow::Result<String> {
        Ok(self.generation().await?.tag_or_unversioned().to_string())
    }

    /// The configured policy or chain, with its settings.
    pub fn configured_chain(&self) -> Vec<MemberSource> {
        chain(&self.config.policy)
    }

    /// The configured policies, loaded and checked.
    pub async fn policies(&self) -> anyhow::Result<Policies> {
        let engine = self.engine()?;
        let policy = engine.load(self.configured_chain()).await?;
        let fallback = match self.config.recovery.on_policy_error {
            OnPolicyError::Defer => None,
            OnPolicyError::Fallback => Some(engine.load(vec![MemberSource::new(Origin::Builtin)]).await?),
        };
        Ok(Policies { engine, policy, fallback })
    }

    /// Everything that a scan of this store works with.
    pub async fn scanner(
        &self,
        store: SharedStore,
        Policies { policy, fallback, .. }: Policies,
        now: Option<Timestamp>,
    ) -> anyhow::Result<Scanner> {
        let (metrics, health) = (Metrics::new(), Health::default());
        in_use::tell(&policy, &metrics, &health);
        Ok(Scanner {
            store,
            policy: LivePolicy::new(policy),
            fallback,
            options: Arc::new(recovery_options(&self.config.recovery)),
            generation: self.generation().await?,
            instance: Uuid::now_v7(),
            metrics,
            health,
            now,
            shutdown: CancellationToken::new(),
            abandoned: Arc::default(),
            deferrals: Arc::default(),
            pace: Arc::default(),
            rota: Arc::default(),
        })
    }

    /// A policy engine with the configured limits.
    pub fn engine(&self) -> anyhow::Result<PolicyEngine> {
        Ok(PolicyEngine::new(engine_options(&self.config.policy))?)
    }
}

/// The log's level. Unless one is set, a command that ends by itself logs warnings only: what it has to say it says
/// on its own.
fn level<'a>(cli: &Cli, config: &'a Config) -> &'a str {
    let default = if matches!(cli.command, Command::Serve(_)) { "info" } else { "warn" };
    config.log.level.as_deref().unwrap_or(default)
}

fn overrides(cli: &Cli) -> Overrides {
    let (policy, generation) = match &cli.command {
        Command::Serve(args) => (args.policy.clone(), args.generation.clone()),
        Command::Scan(args) => (args.policy.clone(), args.generation.clone()),
        Command::Demo(args) => (args.policy.clone(), None),
        Command::Sweep(args) => (None, args.generation.clone()),
        Command::Import(args) => (None, args.generation.clone()),
        Command::Move(args) => (None, args.generation.clone()),
        Command::Migrate(_)
        | Command::List(_)
        | Command::Show(_)
        | Command::Retry(_)
        | Command::Hold(_)
        | Command::GiveUp(_)
        | Command::Stats(_)
        | Command::Policy(_) => (None, None),
    };
    Overrides { store_url: cli.global.store.clone(), policy_path: policy, generation }
}
