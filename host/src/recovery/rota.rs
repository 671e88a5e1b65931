//! Whose turn it is among the hosts that share a store.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::store::HostPlace;

/// A host leaves what wakes all of them to each one before it for so long: it is claimed by then, if it is little.
const HEAD_START: Duration = Duration::from_millis(3);
/// The longest that a host waits for those before it, however many there are.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// A host's place among those that share its store, so that what wakes all of them is not looked at by all of them.
///
/// It is a hint, as old as the last heartbeat: two hosts that think themselves the first look twice, and where none does,
/// the second looks a moment later. Alone until it is told otherwise.
#[derive(Debug)]
pub struct Rota {
    hosts: AtomicU32,
    before: AtomicU32,
}

impl Default for Rota {
    fn default() -> Self {
        Self { hosts: AtomicU32::new(1), before: AtomicU32::new(0) }
    }
}

impl Rota {
    /// Takes note of the place.
    pub fn take(&self, place: HostPlace) {
        self.hosts.store(place.hosts, Ordering::Relaxed);
        self.before.store(place.before, Ordering::Relaxed);
    }

    /// How long what wakes all hosts is left to those before this one; zero for the first.
    pub(super) fn wait(&self) -> Duration {
        HEAD_START.saturating_mul(self.before.load(Ordering::Relaxed)).min(LONGEST_WAIT)
    }

    /// How long until this host's next look, so long after the hosts began to look one after the other, `every` so often.
    pub(super) fn next_look(&self, every: Duration, since: Duration) -> Duration {
        let hosts = u128::from(self.hosts.load(Ordering::Relaxed).max(1));
        let before = u128::from(self.before.load(Ordering::Relaxed)) % hosts;
        let every = every.as_nanos().max(1);
        let next = since.as_nanos() / every;
        let turn = next + (before + hosts - next % hosts) % hosts;
        let wait = (turn + 1) * every - since.as_nanos();
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    fn rota(hosts: u32, before: u32) -> Rota {
        let rota = Rota::default();
        rota.take(HostPlace { hosts, before });
        rota
    }

    /// The moments within so many milliseconds at which a host looks.
    fn looks(rota: &Rota, millis: u64) -> Vec<u128> {
        let (mut since, mut looks) = (Duration::ZERO, Vec::new());
        while since < Duration::from_millis(millis) {
            since += rota.next_look(EVERY, since);
            looks.push(since.as_millis());
        }
        looks
    }

    #[test]
    fn a_host_that_is_alone_takes_every_look_and_waits_for_nobody() {
        assert_eq!(looks(&Rota::default(), 100), [20, 40, 60, 80, 100]);
        assert_eq!(Rota::default().wait(), Duration::ZERO);
    }

    #[test]
    fn several_hosts_take_the_looks_of_one_in_turn() {
        let mut together: Vec<u128> = (0..4).flat_map(|before| looks(&rota(4, before), 160)).collect();
        together.sort_unstable();

        let alone: Vec<u128> = looks(&Rota::default(), 240);
        assert_eq!(together[..8], alone[..8]);
        assert_eq!(looks(&rota(4, 2), 160), [60, 140, 220]);
    }

    #[test]
    fn the_first_host_looks_at_once_and_each_other_one_after_those_before_it() {
        assert_eq!(rota(4, 0).wait(), Duration::ZERO);
        assert_eq!(rota(4, 3).wait(), HEAD_START * 3);
        assert_eq!(rota(900, 899).wait(), LONGEST_WAIT);
    }

    #[test]
    fn a_place_that_cannot_be_still_has_its_looks() {
        assert_eq!(looks(&rota(0, 0), 40), [20, 40]);
        assert_eq!(looks(&rota(2, 5), 80), [40, 80]);
    }
}
