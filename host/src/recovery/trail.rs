//! What a pass leaves behind it.

use std::collections::VecDeque;

use crate::store::Cursor;

/// How many claims one look takes in.
const STRETCH: usize = 8;

/// Where the claims of a pass stopped, as far as nobody has looked over what lies between them since.
#[derive(Debug)]
pub(super) struct Trail {
    stops: VecDeque<Cursor>,
    /// So many of the newest are left alone: twice as many as there are batches in hand, since beside what has just been
    /// settled there may be transactions that do not see it yet.
    fresh: usize,
}

impl Trail {
    /// That of a pass in so many lanes, each with two batches in hand.
    pub fn new(lanes: u16) -> Self {
        Self { stops: VecDeque::new(), fresh: 4 * usize::from(lanes) }
    }

    /// A claim stopped here. One that went no further than the one before adds nothing.
    pub fn stopped_at(&mut self, place: Cursor) {
        if place > self.stops.back().copied().unwrap_or(Cursor::FRONT) {
            self.stops.push_back(place);
        }
    }

    /// The next stretch to look over, behind the first place and up to the second; `None` while there is none.
    pub fn stretch(&mut self) -> Option<(Cursor, Cursor)> {
        if self.stops.len() <= STRETCH + self.fresh {
            return None;
        }
        let after = *self.stops.front()?;
        self.stops.drain(..STRETCH);
        Some((after, *self.stops.front()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn place(n: i64) -> Cursor {
        let at = Timestamp::from_second(n).unwrap();
        Cursor { due_at: at, dead_lettered_at: at, dead_letter_id: Uuid::nil() }
    }

    #[test]
    fn stretches_follow_each_other_without_a_gap_and_stay_behind_what_is_in_hand() {
        let mut trail = Trail::new(2);
        let mut looked_over = Vec::new();
        for n in 0..100 {
            trail.stopped_at(place(n));
            trail.stopped_at(place(n));
            let Some((after, up_to)) = trail.stretch() else { continue };
            assert_eq!(trail.stretch(), None, "one at a time");
            assert!(up_to <= place(n - 8), "{up_to:?} is fresh at {n}");
            looked_over.push((after, up_to));
        }
        assert_eq!(looked_over.first().unwrap().0, place(0));
        assert!(looked_over.is_sorted_by(|one, next| one.1 == next.0));
        assert!(looked_over.last().unwrap().1 >= place(100 - 8 - 2 * 8), "{looked_over:?}");
    }
}
