//! What a scan decided, grouped for people.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use uuid::Uuid;

use crate::cli::table::Table;
use crate::model::text::visible;
use crate::model::{DeadLetter, FailureReason, RecoveryStatus};
use crate::store::operator::RecordedDecision;

/// What rows that were decided alike have in common, in the order of the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    reason: FailureReason,
    rule: String,
    decided: &'static str,
    why: String,
}

/// The part of a recorded rule that the table tells.
#[derive(Debug, Deserialize)]
struct Rule {
    name: String,
    max_recovery_attempts: u32,
    cooldown_ms: u64,
}

/// Rows by reason and by what was decided about them.
#[derive(Debug, Default)]
pub struct Decided(BTreeMap<Kind, u64>);

impl Decided {
    /// Adds a row with the decision about it.
    pub fn add(&mut self, entry: &DeadLetter, decision: &RecordedDecision) {
        *self.0.entry(kind(entry, decision)).or_default() += 1;
    }

    /// The table's lines.
    pub fn lines(&self) -> Vec<String> {
        let mut table = Table::new(&["WHY IT DIED", "RULE", "ROWS", "DECIDED", "BECAUSE"]);
        for (kind, rows) in &self.0 {
            let Kind { reason, rule, decided, why } = kind;
            table.row([reason.to_string(), rule.clone(), rows.to_string(), (*decided).to_owned(), why.clone()]);
        }
        table.lines()
    }
}

fn kind(entry: &DeadLetter, decision: &RecordedDecision) -> Kind {
    let rule: Option<Rule> = decision.rule.as_deref().and_then(|rule| serde_json::from_str(rule).ok());
    let (decided, why) = match (decision.decision.as_str(), entry.recovery_status) {
        ("recover", RecoveryStatus::Recovered) => ("re-emitted", attempt(decision, rule.as_ref())),
        ("wait", _) => ("waits", cooldown(rule.as_ref())),
        (_, RecoveryStatus::HoldForReview) => ("held", note(entry, decision)),
        (_, RecoveryStatus::PermanentlyFailed) => ("given up", note(entry, decision)),
        _ => ("still open", note(entry, decision)),
    };
    let rule = rule.map_or_else(|| "-".to_owned(), |rule| visible(&rule.name).into_owned());
    Kind { reason: entry.failure_reason, rule, decided, why }
}

fn attempt(decision: &RecordedDecision, rule: Option<&Rule>) -> String {
    match (decision.attempt, rule) {
        (Some(attempt), Some(rule)) if rule.max_recovery_attempts > 0 => {
            format!("attempt {attempt} of {}", rule.max_recovery_attempts)
        }
        _ => "a free attempt".to_owned(),
    }
}

fn cooldown(rule: Option<&Rule>) -> String {
    rule.map_or_else(String::new, |rule| {
        let span = jiff::SignedDuration::try_from(Duration::from_millis(rule.cooldown_ms)).unwrap_or_default();
        format!("its cooldown of {span:#} has not passed")
    })
}

/// The host's words, without the ids in them, which would make a group of each row.
fn note(entry: &DeadLetter, decision: &RecordedDecision) -> String {
    let note = entry.status_note.as_deref().or(decision.note.as_deref()).unwrap_or("");
    let words: Vec<&str> = note.split(' ').map(|word| if Uuid::try_parse(word).is_ok() { "…" } else { word }).collect();
    visible(&words.join(" ")).into_owned()
}
