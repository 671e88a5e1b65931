//! Judging a policy against what was decided.

use jiff::Timestamp;

use super::outcome::{FAILS, Outcome};
use super::progress::Progress;
use super::sides::Side;
use super::tally::Tally;
use super::{PAGE, Picked};
use crate::model::decision::Siblings;
use crate::model::json::parse_view;
use crate::model::notes;
use crate::model::view::PolicyView;
use crate::recovery::record;
use crate::store::{History, RecordedDecision, SharedStore};

/// The decisions of policies that are recorded, and what stands for one that was not made.
const DECISIONS: [(&str, &str); 6] = [
    ("recover", "recover"),
    ("hold", "hold"),
    ("permanently-fail", "permanently-fail"),
    ("wait", "wait"),
    ("skip", "skip"),
    ("policy-error", FAILS),
];

/// One decision, ready to be judged.
struct Then {
    name: String,
    view: PolicyView,
    siblings: Siblings,
    outcome: Outcome,
    at: Timestamp,
}

/// Compares the recorded decisions with what a policy makes of the same inputs at the same time; how many of them the
/// policy of a digest made. Decisions of the same time are asked about together.
///
/// # Errors
///
/// The store cannot be read, or the host could not ask.
pub async fn compare(
    store: &SharedStore,
    picked: &Picked,
    digest: Option<&str>,
    side: &mut Side,
    tally: &mut Tally,
) -> anyhow::Result<u64> {
    let mut progress = Progress::start();
    let mut by_digest = 0;
    let mut page = store.history(&History { since: picked.since, after: None, limit: PAGE }).await?;
    while let Some(next) = page.next {
        tally.unreadable += page.unreadable;
        let mut thens = Vec::with_capacity(page.decisions.len());
        for (id, decision) in &page.decisions {
            match then(id.to_string(), decision) {
                Some(then) if picked.has_status(&then.view.entry) => {
                    by_digest += u64::from(decision.policy_digest.as_deref() == digest);
                    thens.push(then);
                }
                Some(_) => {}
                None => tally.unreadable += 1,
            }
        }
        let following =
            async { Ok(store.history(&History { since: picked.since, after: Some(next), limit: PAGE }).await?) };
        (page, ()) = tokio::try_join!(following, judge(&thens, side, tally))?;
        progress.at(tally.compared);
    }
    Ok(by_digest)
}

async fn judge(thens: &[Then], side: &mut Side, tally: &mut Tally) -> anyhow::Result<()> {
    for same_time in thens.chunk_by(|one, other| one.at == other.at) {
        let Some(now) = same_time.first().map(|then| then.at) else { continue };
        let answers = side.ask(|| same_time.iter().map(|then| then.view.clone()).collect(), now).await?;
        for (then, answer) in same_time.iter().zip(answers) {
            // The same answers made the same decision, also where the time of then is a moment off.
            let outcome = match answer {
                Ok(answers) if then.outcome.answers.as_ref() == Some(&answers) => then.outcome.clone(),
                answer => Outcome::of(&then.view.entry, &then.siblings, answer, now),
            };
            tally.add(&then.view.entry, &then.outcome, &outcome, || then.name.clone());
        }
    }
    Ok(())
}

/// Takes a record apart; `None` when it is none that a policy's decision leaves.
fn then(name: String, record: &RecordedDecision) -> Option<Then> {
    let (_, decision) = DECISIONS.into_iter().find(|(name, _)| *name == record.decision)?;
    let view = parse_view(record.inputs.as_deref()?).ok()?;
    let siblings = notes::siblings(&record.decision, record.note.as_deref());
    let at = record.decided_at;
    let answers = record.rule.as_deref().and_then(record::answers);
    let outcome = match answers {
        None if decision == FAILS => Outcome::fails(record.note.as_deref().unwrap_or("the policy failed")),
        None => return None,
        // Until when it waited is not recorded; what was answered says it again.
        Some(answers) => {
            let again = Outcome::of(&view.entry, &siblings, Ok(answers.clone()), at);
            let says_again = again.decision == decision && siblings.predecessor.is_none();
            let not_before = again.not_before.filter(|_| says_again);
            Outcome::recorded(decision, not_before, Some(answers))
        }
    };
    Some(Then { name, view, siblings, outcome, at })
}
