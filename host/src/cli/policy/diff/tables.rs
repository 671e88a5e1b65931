//! Comparing over a case table.

use super::Picked;
use super::outcome::Outcome;
use super::tally::Tally;
use crate::cli::policy::cases::Case;
use crate::cli::policy::cases::trials::Trials;

/// Compares what both sides make of the cases of a table, whatever these expect. A timeline is lived with each of them
/// up to the first step at which they differ: from there on they are two stories. A policy that refuses a case's
/// settings fails on it.
///
/// # Errors
///
/// A file is no policy.
pub async fn compare(
    cases: &[Case],
    picked: &Picked,
    old: &mut Trials<'_>,
    new: &mut Trials<'_>,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for case in cases.iter().filter(|case| picked.takes(&case.entry)) {
        let steps = lived(old, case).await?.into_iter().zip(lived(new, case).await?).enumerate();
        let mut shown = None;
        for (place, (old, new)) in steps {
            let differs = old.difference(&new).is_some();
            shown = Some((place, old, new));
            if differs {
                break;
            }
        }
        if let Some((place, old, new)) = shown {
            let name = || match case.steps.len() {
                1 => case.name.clone(),
                _ => format!("{}, step {}", case.name, place + 1),
            };
            tally.add(&case.entry, &old, &new, name);
        }
    }
    Ok(())
}

async fn lived(trials: &mut Trials<'_>, case: &Case) -> anyhow::Result<Vec<Outcome>> {
    Ok(match trials.live(case).await? {
        Ok(steps) => steps.into_iter().map_while(Outcome::tried).collect(),
        Err(refusal) => vec![Outcome::fails(&refusal.said())],
    })
}
