//! What came about.

use reprieve::store::Outcome;

/// How often it came about: attempts by their outcome, attempts on credit, batches of dead hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub steps: u64,
    pub deaths: u64,
    pub recovered: u64,
    pub failed: u64,
    pub collided: u64,
    pub blocked: u64,
    pub superseded: u64,
    pub lost: u64,
    pub free: u64,
    pub rescued: u64,
    pub mishaps: u64,
}

impl Counts {
    /// Adds those of another history.
    pub const fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.deaths += other.deaths;
        self.recovered += other.recovered;
        self.failed += other.failed;
        self.collided += other.collided;
        self.blocked += other.blocked;
        self.superseded += other.superseded;
        self.lost += other.lost;
        self.free += other.free;
        self.rescued += other.rescued;
        self.mishaps += other.mishaps;
    }

    /// Whether everything came about.
    pub const fn all(&self) -> bool {
        let Self { steps, deaths, recovered, failed, collided, blocked, superseded, lost, free, rescued, mishaps } =
            *self;
        let outcomes = recovered > 0 && failed > 0 && collided > 0 && blocked > 0 && superseded > 0 && lost > 0;
        outcomes && steps > 0 && deaths > 0 && free > 0 && rescued > 0 && mishaps > 0
    }

    /// The attempts that ended like this.
    pub const fn of(&mut self, outcome: &Outcome) -> &mut u64 {
        match outcome {
            Outcome::Recovered => &mut self.recovered,
            Outcome::SourcePresent | Outcome::Gone => &mut self.collided,
            Outcome::Superseded => &mut self.superseded,
            Outcome::Blocked => &mut self.blocked,
            Outcome::Failed(_) | Outcome::Unsettled(_) => &mut self.failed,
            Outcome::Lost => &mut self.lost,
        }
    }
}
