//! `policy eval`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;

use crate::model::decision::{Decision, Siblings, decide};
use crate::model::json::parse_entry;
use crate::model::view::PolicyView;
use crate::model::{Answers, DeadLetter};
use crate::policy::PolicyEngine;

use super::super::exit::DoesNotHold;
use super::super::values::time;
use super::{FileArg, SettingsArg, read};

/// How long a row rests that the policy does not want tried, unless a host is configured otherwise.
pub const SCAN_INTERVAL: Duration = Duration::from_secs(600);

/// Arguments of `policy eval`.
#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    #[command(flatten)]
    file: FileArg,
    /// A file with one dead letter as JSON; only its failure_reason is required
    #[arg(long, value_name = "FILE")]
    entry: PathBuf,
    #[command(flatten)]
    settings: SettingsArg,
    /// The time that stands in for the clock
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
}

/// What a policy answers about a dead letter, and what a host would do with it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Evaluated {
    /// Whether to try at all now.
    pub should_recover: bool,
    /// How often and how soon.
    pub policy: EvaluatedPolicy,
    /// Whether it waits for its siblings.
    pub stream_mode: &'static str,
    /// What a host would do.
    pub decision: &'static str,
    /// For a wait: until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

/// The answer to `get-policy`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct EvaluatedPolicy {
    /// Its name.
    pub name: String,
    /// 0: never.
    pub max_recovery_attempts: u32,
    /// From one attempt to the next.
    pub cooldown_ms: u64,
    /// Held or given up when the attempts are spent.
    pub hold_for_review_after_exhaustion: bool,
    /// Whether the cooldown also passes before the first attempt.
    pub delay_first_attempt: bool,
}

/// Asks a policy all three questions about one dead letter that has no siblings.
///
/// # Errors
///
/// The entry or the settings are malformed or the file is no policy; [`DoesNotHold`] when the policy failed on the entry.
pub async fn eval(args: &EvalArgs, engine: &PolicyEngine) -> anyhow::Result<Evaluated> {
    let now = args.now.unwrap_or_else(Timestamp::now);
    let text = read(&args.entry)?;
    let entry = parse_entry(&text, now).with_context(|| format!("entry file {}", args.entry.display()))?;
    let member = super::member(&args.file.file, args.settings.settings.as_deref());
    let policy = engine.load(vec![member]).await?;
    let answered = policy.session(now).ask(vec![PolicyView::of(&entry)]).await.pop();
    let answers = answered.context("the policy was not asked")?.map_err(|failure| DoesNotHold(failure.to_string()))?;
    Ok(Evaluated::new(&entry, answers, now))
}

impl Evaluated {
    fn new(entry: &DeadLetter, answers: Answers, now: Timestamp) -> Self {
        let decision = decide(entry, &answers, &Siblings::default(), SCAN_INTERVAL, now);
        let not_before = not_before(&decision);
        let Answers { should_recover, policy, stream_mode } = answers;
        Self {
            should_recover,
            stream_mode: stream_mode.name(),
            decision: decision.name(),
            not_before,
            policy: EvaluatedPolicy {
                name: policy.name,
                max_recovery_attempts: policy.max_recovery_attempts,
                cooldown_ms: u64::try_from(policy.cooldown.as_millis()).unwrap_or(u64::MAX),
                hold_for_review_after_exhaustion: policy.hold_for_review_after_exhaustion,
                delay_first_attempt: policy.delay_first_attempt,
            },
        }
    }
}

/// For a wait: until when.
pub const fn not_before(decision: &Decision) -> Option<Timestamp> {
    match decision {
        Decision::Wait { not_before, .. } => Some(*not_before),
        Decision::Recover { .. } | Decision::Hold(_) | Decision::PermanentlyFail | Decision::Skip { .. } => None,
    }
}
