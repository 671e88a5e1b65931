//! `serve`: the worker, the policy's reloads and the HTTP endpoints, until told to stop.

mod refusals;
mod reloads;
mod service;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::exit::Ended;
use super::program::Program;
use super::signals::{Hangups, Stops};
use crate::http::{self, HttpState};
use crate::policy::PolicyEngine;
use crate::recovery::{Scanner, Whereabouts, Worker};
use reloads::Reloads;

/// How long the batch in hand may take to be finished or given back.
const GRACE: Duration = Duration::from_secs(20);

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Example: reprieve serve --store postgres://app@db/shop --generation shop-1.5.0")]
pub struct ServeArgs {
    /// Leave the schema as it is
    #[arg(long)]
    no_migrate: bool,
    /// The policy component, or builtin:default-matrix
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<String>,
    /// The build that the messages' application runs now
    #[arg(long, value_name = "TAG")]
    pub(super) generation: Option<String>,
}

/// Serves. What is wrong with arguments, port, policy or schema is found before the first scan, in this order.
pub async fn run(args: &ServeArgs, program: &Program) -> anyhow::Result<Ended> {
    // From the start on: a deployment may ask for a reload, or change its mind, at any moment.
    let (hangups, mut stops) = (Hangups::new(), Stops::new());
    let listen = program.config.http.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}: set another address under [http] listen"))?;
    let (scanner, engine) = tokio::select! {
        prepared = prepared(args, program) => prepared?,
        () = stops.told() => return Ok(Ended::Done),
    };
    let reloads = Reloads::new(program.source.clone(), program.config.clone(), engine, &scanner);
    let reloads = tokio::spawn(reloads.run(hangups, scanner.shutdown.clone()));
    tracing::info!(address = %listener.local_addr()?, store = program.store_name(), "serving");
    service::ready("serving");
    until_stopped(stops, listener, scanner, reloads, program.config.recovery.enabled).await?;
    Ok(Ended::Done)
}

/// Loads the policy, then opens the store and brings its schema up to date.
async fn prepared(args: &ServeArgs, program: &Program) -> anyhow::Result<(Scanner, PolicyEngine)> {
    // Before the store is touched: a host that cannot start must not have changed a schema.
    let policies = program.policies().await?;
    let engine = policies.engine.clone();
    let store = if args.no_migrate { program.store().await? } else { program.new_store().await? };
    if !args.no_migrate {
        for migration in store.migrate(false).await? {
            tracing::info!(migration, "applied");
        }
    }
    let scanner = program.scanner(store, policies, None).await?;
    scanner.store.become_recovering_host().await?;
    if scanner.generation.tag().is_none() {
        tracing::warn!("no generation is set: rows are tagged `unversioned` and nothing is swept; give --generation");
    }
    Ok((scanner, engine))
}

/// Runs worker, reloads and endpoints until a signal comes.
///
/// # Errors
///
/// When one of them ends by itself.
async fn until_stopped(
    mut stops: Stops,
    listener: TcpListener,
    scanner: Scanner,
    mut reloads: JoinHandle<()>,
    enabled: bool,
) -> anyhow::Result<()> {
    let shutdown = scanner.shutdown.clone();
    let state = HttpState::new(scanner.metrics.clone(), scanner.health.clone(), scanner.store.clone());
    let mut endpoints = tokio::spawn(http::serve(listener, state, shutdown.clone()));
    let mut worker = tokio::spawn(recover(scanner, enabled));
    tokio::select! {
        () = stops.told() => {}
        () = service::stay_alive() => {}
        ended = &mut worker => return Err(by_itself("the worker", ended)),
        ended = &mut reloads => return Err(by_itself("watching the policy's files", ended)),
        ended = &mut endpoints => return Err(by_itself("serving the HTTP endpoints", ended?)),
    }
    service::stopping();
    shutdown.cancel();
    if tokio::time::timeout(GRACE, worker).await.is_err() {
        tracing::warn!(grace = ?GRACE, "the batch in hand was not finished; its lease will end");
    }
    let _ = endpoints.await;
    tracing::info!("stopped");
    Ok(())
}

fn by_itself<E: std::error::Error + Send + Sync + 'static>(what: &str, ended: Result<(), E>) -> anyhow::Error {
    let message = format!("{what} ended by itself");
    match ended {
        Ok(()) => anyhow::Error::msg(message),
        Err(error) => anyhow::Error::new(error).context(message),
    }
}

async fn recover(scanner: Scanner, enabled: bool) {
    if enabled {
        let whereabouts = Whereabouts {
            host_name: whoami::hostname().unwrap_or_else(|_| "unknown".to_owned()),
            process_id: std::process::id(),
        };
        scanner.registered(&whereabouts, Worker::new(scanner.clone()).run()).await;
    } else {
        tracing::warn!("recovery is switched off by [recovery] enabled = false: nothing is swept or scanned");
        scanner.shutdown.cancelled().await;
    }
}
