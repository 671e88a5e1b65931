//! `policy test`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::cases::trials::{Trials, Tried};
use super::cases::{self, Case, CaseStep, expect};
use super::eval::not_before;
use super::{FileArg, SettingsArg, member, read};
use crate::cli::exit::Ended;
use crate::model::text::visible;
use crate::policy::PolicyEngine;

/// Arguments of `policy test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: reprieve policy test inventory.wasm cases.toml --filter throttled")]
pub struct TestArgs {
    #[command(flatten)]
    file: FileArg,
    /// The case table (TOML)
    #[arg(value_name = "CASES")]
    cases: PathBuf,
    /// Only the cases whose name holds this text, in any case
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    settings: SettingsArg,
}

/// How a table of cases went.
#[derive(Debug, Serialize)]
pub struct Tested {
    /// The table.
    cases_file: String,
    /// Cases that were tried.
    cases: usize,
    /// Of these.
    passed: usize,
    /// What went otherwise than expected, in the order of the file.
    failures: Vec<Failure>,
}

/// One thing that went otherwise than expected.
#[derive(Debug, Clone, Serialize)]
struct Failure {
    name: String,
    line: usize,
    /// Which step of a timeline, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    key: String,
    expected: Value,
    got: Value,
}

impl Tested {
    /// A failed case, and no case at all, is exit 1.
    pub fn ended(&self) -> Ended {
        if self.failures.is_empty() && self.cases > 0 { Ended::Done } else { Ended::NotHeld }
    }
}

/// Tries a policy on each case under the limits in force, and once more in another order, twice in a row and in
/// instances that have answered before: an answer must not depend on what was asked before.
///
/// # Errors
///
/// The file is no policy, or the table is none.
pub async fn test(args: &TestArgs, engine: &PolicyEngine) -> anyhow::Result<Tested> {
    let text = read(&args.cases)?;
    let mut cases = cases::read(&args.cases, &text, Timestamp::now())?;
    if let Some(filter) = &args.filter {
        let filter = filter.to_lowercase();
        cases.retain(|case| case.name.to_lowercase().contains(&filter));
    }
    let source = member(&args.file.file, args.settings.settings.as_deref());
    let mut trials = Trials::new(engine, source);
    if args.settings.settings.is_some() {
        // Also where every case has settings of its own, so that a file that was named is one.
        trials.policy().await?;
    }
    let in_order: Vec<usize> = (0..cases.len()).collect();
    let first = round(&mut trials, &cases, &in_order).await?;
    trials.start_another_round();
    let other_order: Vec<usize> = in_another_order(in_order).into_iter().flat_map(|place| [place, place]).collect();
    let again = round(&mut trials, &cases, &other_order).await?;
    let mut failures = Vec::new();
    let mut passed = 0;
    for (case, (first, again)) in cases.iter().zip(first.into_iter().flatten().zip(again)) {
        let failed = match again.iter().find(|again| again.found != first.found) {
            Some(other) => vec![impure(case, &first, other)],
            None => first.failures,
        };
        passed += usize::from(failed.is_empty());
        failures.extend(failed);
    }
    Ok(Tested { cases_file: args.cases.display().to_string(), cases: cases.len(), passed, failures })
}

/// How one case went in one round.
#[derive(Default)]
struct Went {
    /// What was found at each step.
    found: Vec<Value>,
    failures: Vec<Failure>,
}

/// Tries cases in an order: how each went, in the order of the file, as often as it stands in that order.
async fn round(trials: &mut Trials<'_>, cases: &[Case], order: &[usize]) -> anyhow::Result<Vec<Vec<Went>>> {
    let mut went: Vec<Vec<Went>> = cases.iter().map(|_| Vec::new()).collect();
    for place in order {
        let (Some(case), Some(went)) = (cases.get(*place), went.get_mut(*place)) else { continue };
        went.push(match trials.live(case).await? {
            Ok(steps) => judged(case, steps),
            Err(refusal) => {
                let (key, got) = (refusal.key(), Value::from(refusal.said()));
                let failures = vec![failure(case, None, key, Value::from("accepted"), got)];
                Went { failures, found: Vec::new() }
            }
        });
    }
    Ok(went)
}

/// What came of a case beside what it expects.
fn judged(case: &Case, steps: Vec<Tried>) -> Went {
    let mut went = Went::default();
    for ((place, step), tried) in case.steps.iter().enumerate().zip(steps) {
        let at = (case.steps.len() > 1).then_some((place + 1, step));
        let (answers, decision) = match tried {
            Tried::Answered(answers, decision) => (answers, decision),
            Tried::Failed(failed) => {
                let got = Value::from(failed.to_string());
                went.failures.push(failure(case, at, "policy", Value::from("an answer"), got));
                break;
            }
            Tried::NoAttempt => {
                let got = Value::from("no attempt in the step before");
                went.failures.push(failure(case, at, "attempt", Value::from("made"), got));
                break;
            }
        };
        let found = expect::document(&answers, decision.name(), not_before(&decision));
        for (key, expected) in &step.expected {
            let got = expect::found(&found, key);
            if got != expected {
                went.failures.push(failure(case, at, key, expected.clone(), got.clone()));
            }
        }
        went.found.push(found);
    }
    went
}

fn failure(case: &Case, step: Option<(usize, &CaseStep)>, key: &str, expected: Value, got: Value) -> Failure {
    let line = step.map_or(case.line, |(_, step)| step.line);
    Failure { name: case.name.clone(), line, step: step.map(|(number, _)| number), key: key.to_owned(), expected, got }
}

fn impure(case: &Case, first: &Went, second: &Went) -> Failure {
    let found = |went: &Went| Value::Array(went.found.clone());
    failure(case, None, "the same answer in another order", found(first), found(second))
}

/// Another order, the same in each run.
fn in_another_order(order: Vec<usize>) -> Vec<usize> {
    let mut other = shuffled(order.clone());
    if other == order {
        other.reverse();
    }
    other
}

fn shuffled(mut order: Vec<usize>) -> Vec<usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (last as u64 + 1)).unwrap_or(0);
        order.swap(last, other);
    }
    order
}

/// For people.
pub fn text(tested: &Tested) -> String {
    let mut text = String::new();
    let file = Path::new(&tested.cases_file).display();
    for Failure { name, line, step, key, expected, got } in &tested.failures {
        let step = step.map_or_else(String::new, |step| format!(", step {step}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "FAILED {file}:{line} {}{step}", visible(name));
        let _ = writeln!(text, "  {key}: expected {expected}, got {got}");
    }
    let Tested { cases, passed, .. } = tested;
    match cases {
        0 => text.push_str("no case was tried: that shows nothing"),
        _ => {
            let plural = if *cases == 1 { "" } else { "s" };
            let _ = write!(text, "{cases} case{plural}: {passed} passed, {} failed", cases - passed);
        }
    }
    text
}
