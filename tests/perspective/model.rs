//! What the store is expected to do, in plain code.

/// How long the leases of the model last, in seconds.
pub const LEASE: i64 = 60;

/// A row of `wh_perspective_events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The number of its event, which is also its place.
    pub number: u64,
    /// Its stream and perspective.
    pub stream: u64,
    pub perspective: &'static str,
    /// Its owner, and until when it is leased.
    pub owner: Option<u64>,
    pub leased_until: Option<i64>,
    pub attempts: i32,
    pub scheduled_for: Option<i64>,
    pub failed: bool,
    pub processed: bool,
    pub dead: bool,
}

impl Row {
    const fn is_open(&self) -> bool {
        !self.processed && !self.dead
    }

    fn is_live_of(&self, who: u64, now: i64) -> bool {
        self.owner == Some(who) && self.leased_until.is_some_and(|until| until > now)
    }

    fn stops(&self, now: i64) -> bool {
        self.scheduled_for.is_some_and(|at| at > now) || self.failed
    }

    /// The most rows that may be claimed up to one behind it, in order.
    const fn company(&self) -> usize {
        match self.attempts {
            i32::MIN..=2 => usize::MAX,
            3 => 256,
            4 => 64,
            5 => 16,
            6 => 4,
            7.. => 1,
        }
    }

    fn is_live_of_another(&self, who: u64, now: i64) -> bool {
        self.owner.is_some_and(|owner| owner != who) && self.leased_until.is_some_and(|until| until > now)
    }
}

/// All rows, in the order of their events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub rows: Vec<Row>,
    /// Instances and their last heartbeats.
    pub alive: Vec<(u64, i64)>,
}

impl Model {
    /// A claim of one stream; the rows that it gives, with their attempts.
    pub fn claim(&mut self, who: u64, stream: u64, in_order: bool, now: i64) -> Vec<(u64, i32)> {
        let of_stream = |row: &Row| row.is_open() && row.stream == stream;
        let held = self.rows.iter().any(|row| of_stream(row) && row.is_live_of_another(who, now));
        let mut stopped: Vec<&str> = Vec::new();
        let mut given = Vec::new();
        let allowed: Vec<u64> = self.rows.iter().filter(|row| self.in_company(row)).map(|row| row.number).collect();
        for row in self.rows.iter_mut().filter(|row| row.is_open() && row.stream == stream) {
            let free = !held && row.scheduled_for.is_none_or(|at| at <= now);
            let waits = stopped.contains(&row.perspective) || !allowed.contains(&row.number);
            let chosen = free && !(in_order && waits);
            if !free || row.failed {
                stopped.push(row.perspective);
            }
            if chosen {
                row.attempts += i32::from(row.owner != Some(who));
                (row.owner, row.leased_until) = (Some(who), Some(now + LEASE));
            }
            if chosen || (!in_order && row.is_live_of(who, now)) {
                given.push((row.number, row.attempts));
            }
        }
        given
    }

    /// Whether a row may be claimed along with those before it, in order.
    fn in_company(&self, row: &Row) -> bool {
        let same = |other: &&Row| {
            other.is_open()
                && (other.stream, other.perspective) == (row.stream, row.perspective)
                && other.number <= row.number
        };
        let up_to_here: Vec<&Row> = self.rows.iter().filter(same).collect();
        let company = up_to_here.iter().map(|row| row.company()).min().unwrap_or(usize::MAX);
        up_to_here.len() <= company.max(1)
    }

    /// A claim of orphans; their numbers.
    pub fn orphans(&mut self, who: u64, max: usize, in_order: bool, now: i64) -> Vec<u64> {
        let alive = |owner| self.alive.iter().any(|(instance, at)| *instance == owner && *at >= now - 300);
        let orphaned = |row: &&Row| {
            row.is_open()
                && row.owner.is_some_and(|owner| owner != who && !alive(owner))
                && row.leased_until.is_none_or(|until| until <= now)
                && row.scheduled_for.is_none_or(|at| at <= now)
                && (!in_order || self.in_company(row))
                && !self.rows.iter().any(|other| {
                    other.is_open()
                        && (other.stream, other.perspective) == (row.stream, row.perspective)
                        && other.number < row.number
                        && (other.is_live_of_another(who, now) || in_order && other.stops(now))
                })
        };
        let mut found: Vec<_> =
            self.rows.iter().filter(orphaned).map(|row| (row.stream, row.perspective, row.number)).collect();
        found.sort_unstable();
        let taken: Vec<u64> = found.into_iter().take(max).map(|(.., number)| number).collect();
        for row in self.rows.iter_mut().filter(|row| taken.contains(&row.number)) {
            row.attempts += 1;
            (row.owner, row.leased_until) = (Some(who), Some(now + LEASE));
        }
        taken
    }

    /// Those of the rows that belong to an instance.
    fn owned(&mut self, who: u64, numbers: &[u64]) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut().filter(move |row| row.is_open() && row.owner == Some(who) && numbers.contains(&row.number))
    }

    /// A report that rows are done; those that are.
    pub fn complete(&mut self, who: u64, numbers: &[u64]) -> Vec<u64> {
        let done = self.owned(who, numbers).map(|row| {
            (row.processed, row.leased_until) = (true, None);
            row.number
        });
        done.collect()
    }

    /// A report that rows have failed; those that have.
    pub fn fail(&mut self, who: u64, numbers: &[u64], now: i64) -> Vec<u64> {
        let failed = self.owned(who, numbers).map(|row| {
            let wait = 2_i64.pow(u32::try_from(row.attempts.clamp(1, 20) - 1).unwrap()).min(300);
            (row.owner, row.leased_until, row.failed) = (None, None, true);
            row.scheduled_for = Some(now + wait);
            row.number
        });
        failed.collect()
    }

    /// A move of rows to the dead letters; those that are moved.
    pub fn bury(&mut self, who: u64, numbers: &[u64]) -> Vec<u64> {
        let buried = self.owned(who, numbers).map(|row| {
            row.dead = true;
            row.number
        });
        buried.collect()
    }

    /// A recovery of a dead row.
    pub fn recover(&mut self, number: u64) -> bool {
        let Some(row) = self.rows.iter_mut().find(|row| row.number == number && row.dead) else { return false };
        let Row { stream, perspective, .. } = *row;
        *row = Row::new(number, stream, perspective);
        true
    }

    /// A sign of life.
    pub fn heartbeat(&mut self, who: u64, now: i64) {
        self.alive.retain(|(instance, _)| *instance != who);
        self.alive.push((who, now));
    }
}

impl Row {
    /// A row as an application makes it.
    pub const fn new(number: u64, stream: u64, perspective: &'static str) -> Self {
        Self {
            number,
            stream,
            perspective,
            owner: None,
            leased_until: None,
            attempts: 0,
            scheduled_for: None,
            failed: false,
            processed: false,
            dead: false,
        }
    }
}
