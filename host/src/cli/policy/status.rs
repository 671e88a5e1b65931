//! `policy status`: what a running host has loaded.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::cli::exit::Unreachable;
use crate::cli::program::Program;
use crate::model::text::visible;
use crate::telemetry::{LoadedPolicy, Rejected};

/// How long the host may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `policy status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: reprieve policy status --address 127.0.0.1:9780")]
pub struct StatusArgs {
    /// Where the host's endpoints listen [default: the configuration's [http] listen]
    #[arg(long, value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
}

/// What `/readyz` says of policies.
#[derive(Debug, Serialize, Deserialize)]
pub struct PolicyStatus {
    status: String,
    policies: Vec<LoadedPolicy>,
    rejected: Option<Rejected>,
}

/// Asks the host.
///
/// # Errors
///
/// No host answers there, or what answers is none.
pub async fn status(args: &StatusArgs, program: &Program) -> anyhow::Result<PolicyStatus> {
    let address = args.address.unwrap_or_else(|| reachable(program.config.http.listen));
    let url = format!("http://{address}/readyz");
    let asked = url.clone();
    let body = tokio::task::spawn_blocking(move || ask(&asked)).await.context("asking the host")?;
    let body = body.map_err(|problem| {
        Unreachable(format!("no host answers at {url}: {problem}; is it running, and is [http] listen its address?"))
    })?;
    serde_json::from_str(&body).with_context(|| format!("what answers at {url} is no host of this version"))
}

/// The address at which a host on this machine is reached that listens on all of them.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(address) if address.ip().is_unspecified() => ([127, 0, 0, 1], address.port()).into(),
        SocketAddr::V6(address) if address.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, address.port()).into()
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => listen,
    }
}

/// The document, whatever the status that comes with it: a host whose store is away has a policy all the same.
fn ask(url: &str) -> Result<String, ureq::Error> {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
    agent.new_agent().get(url).call()?.into_body().read_to_string()
}

/// For people.
pub fn text(status: &PolicyStatus) -> String {
    let mut text = format!("host: {}", visible(&status.status));
    for (place, policy) in status.policies.iter().enumerate() {
        let LoadedPolicy { name, digest, since, sha256, source } = policy;
        let role = if place == 0 { "asked first" } else { "asked next" };
        let (name, source) = (visible(name), visible(source));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{name} ({role}), in use since {since}\n  source: {source}\n  sha256: {sha256}");
        let _ = write!(text, "\n  digest: {digest}");
    }
    match &status.rejected {
        None => text.push_str("\nrejected: nothing"),
        Some(Rejected { digest, at, reason }) => {
            let digest = digest.as_deref().unwrap_or("unknown");
            let _ = write!(text, "\nrejected at {at}\n  sha256: {digest}\n  reason: {}", visible(reason));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_host_that_listens_everywhere_is_asked_on_this_machine() {
        let reached = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:9780"), "127.0.0.1:9780");
        assert_eq!(reached("[::]:9780"), "[::1]:9780");
        assert_eq!(reached("10.1.2.3:80"), "10.1.2.3:80");
    }
}
