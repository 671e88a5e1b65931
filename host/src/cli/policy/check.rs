//! `policy check`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli::program::Program;
use crate::model::text::visible;
use crate::policy::{Limits, MemberInfo, Origin};

/// Arguments of `policy check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The policy component, or builtin:default-matrix; left out, the configured policy or chain with its settings
    #[arg(value_name = "FILE")]
    file: Option<Origin>,
    /// A file with the policy's settings: a JSON object, or TOML when its name ends in .toml
    #[arg(long, value_name = "FILE", requires = "file")]
    settings: Option<PathBuf>,
}

/// What a policy is that passed the check.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The smallest world that the file fits.
    pub world: &'static str,
    /// The version of the contract.
    pub version: &'static str,
    /// What the file imports.
    pub imports: Vec<String>,
    /// The digest that goes with recorded decisions.
    pub digest: String,
    /// What it was held to.
    pub limits: CheckedLimits,
    /// The most memory that the sample entries took, of all members.
    pub memory_bytes: usize,
    /// Who is asked, in order; after the file, who it passes questions on to.
    pub members: Vec<CheckedMember>,
}

/// The limits in force, as they are configured.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "the names are those of the configuration")]
pub struct CheckedLimits {
    pub call_time_ms: u64,
    pub start_time_ms: u64,
    pub memory_bytes: usize,
    pub stack_bytes: usize,
    pub instances: usize,
    pub memories: usize,
    pub tables: usize,
    pub table_elements: usize,
    pub name_chars: usize,
    pub log_lines: usize,
    pub log_bytes: usize,
}

/// One component of the chain.
#[derive(Debug, Serialize)]
pub struct CheckedMember {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: String,
    /// The smallest world that it fits.
    pub world: &'static str,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// The SHA-256 of the component.
    pub sha256: String,
    /// Bytes.
    pub size: usize,
}

/// Loads and tries a policy as the host would: the one that is named, or what is configured.
///
/// # Errors
///
/// Why the host would refuse it.
pub async fn check(args: &CheckArgs, program: &Program) -> anyhow::Result<Checked> {
    let engine = program.engine()?;
    let chain = match &args.file {
        Some(file) => vec![super::member(file, args.settings.as_deref())],
        None => program.configured_chain(),
    };
    let policy = engine.load(chain).await?;
    let file = policy.about().first().context("a chain without members")?;
    Ok(Checked {
        name: policy.name().to_owned(),
        world: file.world.name(),
        version: crate::policy::VERSION,
        imports: file.imports.clone(),
        digest: policy.digest().to_owned(),
        limits: CheckedLimits::from(engine.limits()),
        memory_bytes: policy.sample_memory_bytes(),
        members: policy.about().iter().map(CheckedMember::from).collect(),
    })
}

impl From<&Limits> for CheckedLimits {
    fn from(limits: &Limits) -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            call_time_ms: milliseconds(limits.call_time),
            start_time_ms: milliseconds(limits.start_time),
            memory_bytes: limits.memory_bytes,
            stack_bytes: limits.stack_bytes,
            instances: limits.instances,
            memories: limits.memories,
            tables: limits.tables,
            table_elements: limits.table_elements,
            name_chars: limits.name_chars,
            log_lines: limits.log_lines,
            log_bytes: limits.log_bytes,
        }
    }
}

impl From<&MemberInfo> for CheckedMember {
    fn from(info: &MemberInfo) -> Self {
        Self {
            name: info.name.clone(),
            origin: info.origin.to_string(),
            world: info.world.name(),
            imports: info.imports.clone(),
            exports: info.exports.clone(),
            sha256: info.sha256.clone(),
            size: info.size,
        }
    }
}

impl Checked {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("{} is a policy of reprieve:policy {}", visible(&self.name), self.version),
            format!("digest   {}", self.digest),
            format!("memory   {} KiB of {} KiB", self.memory_bytes >> 10, self.limits.memory_bytes >> 10),
            format!("time     {} ms a call, {} ms to start", self.limits.call_time_ms, self.limits.start_time_ms),
        ];
        for member in &self.members {
            let (name, origin) = (visible(&member.name), visible(&member.origin));
            lines.push(format!("member   {name} ({origin}), world {}", member.world));
            lines.push(format!("  sha256   {}, {} bytes", member.sha256, member.size));
            lines.push(format!("  imports  {}", listed(&member.imports)));
            lines.push(format!("  exports  {}", listed(&member.exports)));
        }
        lines.join("\n")
    }
}

/// Names on one line.
pub(super) fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
