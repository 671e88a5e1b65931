//! Attempts are counted, within the budget, and free ones are used once.

use jiff::Timestamp;
use reprieve::model::RecoveryStatus;
use reprieve::store::{Attempt, Outcome, Settled};
use uuid::Uuid;

use super::{Auditor, Begun, Holds, Invariant, hold};
use crate::simulation::hosts::Done;
use crate::simulation::letter::{Credit, Letter, tag};
use crate::simulation::world::World;

impl Auditor {
    pub(super) fn attempts_are_counted(&mut self, world: &World, done: &Done) -> Holds {
        use Invariant::AttemptsCounted;
        for before in &self.letters {
            let Some(after) = world.letter(before.id) else { continue };
            let risen = after.attempts - before.attempts;
            let may = matches!(done, Done::Settled(..) | Done::Rescued | Done::BroughtBack);
            hold(AttemptsCounted, risen == 0 || risen == 1 && may, || format!("{before:?} became {after:?}"))?;
        }
        match done {
            Done::Began(batch, attempts) if !attempts.is_empty() => {
                let started_at = world.batches.iter().find(|row| row.id == *batch).map(|row| row.started_at);
                let begun = Begun { attempts: attempts.clone(), started_at: started_at.unwrap_or(world.now) };
                self.begun.insert(*batch, begun);
                Ok(())
            }
            Done::Settled(batch, settled) => self.settled_is_counted(world, *batch, settled),
            Done::Rescued => self.rescued_is_counted(world),
            Done::Released(batch) => {
                self.begun.remove(batch);
                Ok(())
            }
            Done::Something | Done::Claimed(_) | Done::Began(..) | Done::Swept(_) | Done::BroughtBack => Ok(()),
        }
    }

    fn settled_is_counted(&mut self, world: &World, batch: Uuid, settled: &[Settled]) -> Holds {
        use Invariant::AttemptsCounted;
        let stood = self.batches.iter().any(|before| before.id == batch && before.recovering);
        let begun = self.begun.remove(&batch).filter(|_| stood);
        for row in settled {
            let id = row.dead_letter_id;
            if matches!(row.outcome, Outcome::Lost | Outcome::Blocked | Outcome::Superseded | Outcome::Unsettled(_)) {
                continue;
            }
            let attempt = begun.as_ref().and_then(|begun| begun.of(id));
            let Some((attempt, started_at)) = attempt else {
                return hold(AttemptsCounted, false, || format!("{id} was tried, and nobody had begun: {row:?}"));
            };
            self.is_counted(world, &attempt, started_at)?;
        }
        Ok(())
    }

    fn rescued_is_counted(&mut self, world: &World) -> Holds {
        let gone = |id: &Uuid| !world.batches.iter().any(|batch| batch.id == *id);
        let dissolved: Vec<Begun> = self.begun.extract_if(|id, _| gone(id)).map(|(_, begun)| begun).collect();
        for begun in dissolved {
            for attempt in &begun.attempts {
                let open = self.before(attempt.dead_letter_id).is_some_and(|row| row.status == RecoveryStatus::Pending);
                if open {
                    self.is_counted(world, attempt, begun.started_at)?;
                }
            }
        }
        Ok(())
    }

    /// An attempt that was begun is over: it was counted, and within what is allowed.
    fn is_counted(&mut self, world: &World, attempt: &Attempt, started_at: Timestamp) -> Holds {
        use Invariant::{AttemptsCounted, BudgetKept, FreeAttemptsUsedOnce};
        let (Some(before), Some(after)) =
            (self.before(attempt.dead_letter_id).copied(), world.letter(attempt.dead_letter_id))
        else {
            return Ok(());
        };
        let credit = attempt.credit.as_deref().map(Credit::read);
        let spent = credit.is_some() && (after.credit != credit || after.credit_at.is_some_and(|at| at > started_at));
        let counted = after.attempts == before.attempts + 1;
        hold(AttemptsCounted, spent || counted, || format!("{before:?} was tried, and is now {after:?}"))?;
        if world.newer(after).is_some() {
            // The newer death has inherited what was counted when it died.
            return Ok(());
        }
        match credit {
            None => {
                let spent = self.spent.entry((after.message, after.generation)).or_default();
                *spent += 1;
                let most = world.messages[after.message].policy.max_recovery_attempts;
                hold(BudgetKept, *spent <= most, || format!("{after:?} was tried {spent} times, of {most}"))
            }
            Some(Credit::Generation(generation)) => {
                let free = self.free.entry((after.message, generation)).or_default();
                *free += 1;
                hold(FreeAttemptsUsedOnce, *free == 1, || format!("{after:?} was tried {free} times on g{generation}"))
            }
            Some(Credit::Operator) => Ok(()),
        }
    }

    pub(super) fn free_attempts_are_granted_once(&mut self, world: &World, done: &Done) -> Holds {
        use Invariant::FreeAttemptsUsedOnce;
        match done {
            Done::Swept(generation) => {
                let credit = Some(Credit::Generation(*generation));
                let granted = |letter: &&Letter| letter.credit == credit && letter.credit_at == Some(world.now);
                for letter in world.letters.iter().filter(granted) {
                    hold(FreeAttemptsUsedOnce, self.granted.insert((letter.id, *generation)), || {
                        format!("{letter:?} has had a free attempt on g{generation} before")
                    })?;
                }
                Ok(())
            }
            Done::Claimed(id) => {
                let batch = world.batches.iter().find(|batch| batch.id == *id);
                let ids = batch.iter().flat_map(|batch| &batch.ids).filter_map(|id| world.letter(*id));
                let generation = batch.map_or_else(|| tag(0), |batch| batch.generation.clone());
                ids.into_iter().try_for_each(|letter| {
                    hold(FreeAttemptsUsedOnce, !world.is_reserved(letter, &generation), || {
                        format!("{letter:?} is reserved, and {generation} has claimed it")
                    })
                })
            }
            Done::Something
            | Done::Began(..)
            | Done::Settled(..)
            | Done::Rescued
            | Done::Released(_)
            | Done::BroughtBack => Ok(()),
        }
    }
}

impl Begun {
    fn of(&self, id: Uuid) -> Option<(Attempt, Timestamp)> {
        let attempt = self.attempts.iter().find(|attempt| attempt.dead_letter_id == id);
        attempt.map(|attempt| (attempt.clone(), self.started_at))
    }
}
