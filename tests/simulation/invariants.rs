//! What must hold from one step to the next, whatever happens. Read off the tables, and not told by the store.

mod attempts;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use reprieve::model::{RecoveryStatus, StreamMode};
use reprieve::store::Attempt;
use uuid::Uuid;

use super::hosts::Done;
use super::letter::Letter;
use super::world::{Batch, World};

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// Each message is in its table, done, or dead; a dead letter stays, and is called recovered if and only if its
    /// message was put back in the same step.
    NothingLost,
    /// Of the deaths of a message only the newest is re-emitted.
    NewestDeathOnly,
    /// Nothing is re-emitted but by a batch whose begin was committed, and each attempt that was begun is counted once:
    /// settled, failed, or of a host that died.
    AttemptsCounted,
    /// Of a message no more attempts are made in a generation than its policy allows, but for free ones.
    BudgetKept,
    /// A generation grants a dead letter one free attempt, and a message is tried once on it; while it is reserved, by
    /// the hosts of that generation alone.
    FreeAttemptsUsedOnce,
    /// What is re-emitted in the order of its stream passes nothing that has stood in its way since it was claimed.
    OrderKept,
    /// No row and no stream is in two batches.
    OneHostAtATime,
    /// When nothing goes wrong any more, everything that is open comes to an end.
    ComesToRest,
}

/// An invariant that does not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    pub invariant: Invariant,
    pub words: String,
}

pub type Holds = Result<(), Violation>;

pub fn hold(invariant: Invariant, holds: bool, words: impl FnOnce() -> String) -> Holds {
    if holds { Ok(()) } else { Err(Violation { invariant, words: words() }) }
}

/// A batch whose attempts count.
#[derive(Debug)]
struct Begun {
    attempts: Vec<Attempt>,
    started_at: Timestamp,
}

/// Looks at the tables after each step, and remembers what it needs of the steps before.
#[derive(Debug)]
pub struct Auditor {
    letters: Vec<Letter>,
    batches: Vec<Batch>,
    arrivals: usize,
    begun: HashMap<Uuid, Begun>,
    /// What has stood in the way of others ever since a batch was claimed.
    standing: HashMap<Uuid, HashSet<Uuid>>,
    /// Attempts on the budget, by message and generation.
    spent: HashMap<(usize, u8), u32>,
    /// Free attempts, by message and the generation that granted them.
    free: HashMap<(usize, u8), u32>,
    granted: HashSet<(Uuid, u8)>,
}

impl Auditor {
    pub fn new(world: &World) -> Self {
        Self {
            letters: world.letters.clone(),
            batches: world.batches.clone(),
            arrivals: world.arrivals.len(),
            begun: HashMap::new(),
            standing: HashMap::new(),
            spent: HashMap::new(),
            free: HashMap::new(),
            granted: HashSet::new(),
        }
    }

    /// Looks what a step has changed.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub fn check(&mut self, world: &World, done: &Done) -> Holds {
        self.remember_what_stands(world, done);
        self.nothing_is_lost(world)?;
        self.attempts_are_counted(world, done)?;
        self.free_attempts_are_granted_once(world, done)?;
        one_host_at_a_time(world)?;
        if let Done::Settled(batch, _) = done {
            self.order_is_kept(world, *batch)?;
        }
        self.begun.retain(|id, _| world.batches.iter().any(|batch| batch.id == *id));
        self.letters.clone_from(&world.letters);
        self.batches.clone_from(&world.batches);
        self.arrivals = world.arrivals.len();
        Ok(())
    }

    fn before(&self, id: Uuid) -> Option<&Letter> {
        self.letters.binary_search_by_key(&id, |letter| letter.id).ok().map(|at| &self.letters[at])
    }

    fn nothing_is_lost(&self, world: &World) -> Holds {
        use Invariant::{NewestDeathOnly, NothingLost};
        let arrived = &world.arrivals[self.arrivals..];
        for before in &self.letters {
            let Some(after) = world.letter(before.id) else {
                return hold(NothingLost, false, || format!("{before:?} vanished"));
            };
            let was = before.status == RecoveryStatus::Recovered;
            hold(NothingLost, !was || before == after, || format!("{before:?} was recovered, and is now {after:?}"))?;
            let came = after.status == RecoveryStatus::Recovered && !was;
            hold(NothingLost, came == arrived.contains(&after.id), || {
                format!("{after:?} counts as recovered without its message, or the other way round")
            })?;
        }
        for id in arrived {
            let newer = world.letter(*id).and_then(|letter| world.newer(letter));
            hold(NewestDeathOnly, newer.is_none(), || format!("{id} was re-emitted, and has died again as {newer:?}"))?;
        }
        (0..world.messages.len()).try_for_each(|message| {
            let there = world.in_table[message] || world.done[message];
            let deaths = world.letters.iter().filter(|letter| letter.message == message);
            let newest = deaths.max_by_key(|letter| letter.incarnation);
            let dead = newest.is_some_and(|letter| letter.status != RecoveryStatus::Recovered);
            hold(NothingLost, there || dead, || format!("message {message} is nowhere; its last death is {newest:?}"))
        })
    }

    fn remember_what_stands(&mut self, world: &World, done: &Done) {
        let stands = |id: &Uuid| {
            world.letter(*id).is_some_and(|letter| {
                letter.stands_in_the_way(world.terms.held_blocks)
                    && world.messages[letter.message].mode == StreamMode::TailAware
                    && world.newer(letter).is_none()
            })
        };
        for standing in self.standing.values_mut() {
            standing.retain(|id| stands(id));
        }
        if let Done::Claimed(batch) = done {
            let standing = world.letters.iter().map(|letter| letter.id).filter(stands).collect();
            self.standing.insert(*batch, standing);
        }
    }

    fn order_is_kept(&mut self, world: &World, batch: Uuid) -> Holds {
        let in_order = |letter: &&Letter| {
            world.stream(letter).is_some() && world.messages[letter.message].mode == StreamMode::TailAware
        };
        let standing = self.standing.remove(&batch).unwrap_or_default();
        let standing: Vec<&Letter> = standing.iter().filter_map(|id| world.letter(*id)).collect();
        let arrived = world.arrivals[self.arrivals..].iter().filter_map(|id| world.letter(*id)).filter(in_order);
        let mut passed: Vec<&Letter> = Vec::new();
        for letter in arrived {
            let wrong = |other: &&&Letter| {
                world.stream(other) == world.stream(letter) && world.place(other) < world.place(letter)
            };
            let behind = standing.iter().find(wrong);
            hold(Invariant::OrderKept, behind.is_none(), || format!("{letter:?} came back past {behind:?}"))?;
            let before = passed
                .iter()
                .find(|other| world.stream(other) == world.stream(letter) && world.place(other) > world.place(letter));
            hold(Invariant::OrderKept, before.is_none(), || format!("{letter:?} came back after {before:?}"))?;
            passed.push(letter);
        }
        Ok(())
    }
}

fn one_host_at_a_time(world: &World) -> Holds {
    let (mut ids, mut streams) = (HashSet::new(), HashSet::new());
    for batch in &world.batches {
        let distinct: HashSet<u8> = batch.streams.iter().copied().collect();
        let alone = batch.ids.iter().all(|id| ids.insert(*id)) && distinct.into_iter().all(|one| streams.insert(one));
        hold(Invariant::OneHostAtATime, alone, || format!("{batch:?} holds what another batch holds"))?;
    }
    Ok(())
}
