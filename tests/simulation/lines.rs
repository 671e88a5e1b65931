//! Streams in the model: what stands before a row, and what is due once that is gone.

use jiff::SignedDuration;
use reprieve::model::decision::Predecessor;
use reprieve::model::{Deferral, RecoveryStatus, StreamMode};
use reprieve::store::{InStream, StreamOrder};
use uuid::Uuid;

use super::letter::{Letter, Place};
use super::world::World;

impl World {
    /// Dead letters in the order of their streams, each with what stands in its way.
    pub fn stream_order(&self, request: &StreamOrder<'_>) -> Vec<InStream> {
        let mut ours: Vec<&Letter> = request.ids.iter().filter_map(|id| self.letter(*id)).collect();
        ours.sort_by_key(|letter| (self.stream(letter), self.place(letter)));
        let in_stream = |letter: &&Letter| {
            let first = self.stream(letter).and_then(|stream| self.front(stream, request));
            let stands = first.filter(|(place, _)| *place < self.place(letter));
            InStream { dead_letter_id: letter.id, predecessor: stands.map(|(_, predecessor)| predecessor) }
        };
        ours.iter().map(in_stream).collect()
    }

    fn front(&self, stream: u8, request: &StreamOrder<'_>) -> Option<(Place, Predecessor)> {
        let takes_part = |letter: &&Letter| {
            request.standing.contains(&letter.id) || letter.mode_said != Some(StreamMode::PerMessage)
        };
        self.letters
            .iter()
            .filter(|letter| self.stream(letter) == Some(stream) && letter.stands_in_the_way(request.held_blocks))
            .filter(|letter| !request.ids.contains(&letter.id) && !request.passed.contains(&letter.id))
            .filter(takes_part)
            .filter(|letter| self.newer(letter).is_none())
            .map(|letter| (self.place(letter), Predecessor { dead_letter_id: letter.id, due_at: letter.next }))
            .min_by_key(|(place, _)| *place)
    }

    /// Makes those due that wait in the streams of these rows, which are in nobody's way any more.
    pub fn wake_behind(&mut self, ids: &[Uuid]) {
        let mut streams: Vec<u8> =
            ids.iter().filter_map(|id| self.letter(*id)).filter_map(|letter| self.stream(letter)).collect();
        streams.sort_unstable();
        streams.dedup();
        self.wake(&streams);
    }

    /// Makes those due that wait in these streams, in their order.
    pub fn wake(&mut self, streams: &[u8]) {
        let mut waiting = Vec::new();
        for stream in streams {
            let waits = |letter: &&Letter| {
                letter.deferral == Some(Deferral::Stream) && letter.status == RecoveryStatus::Pending
            };
            let here = self.letters.iter().filter(|letter| self.stream(letter) == Some(*stream)).filter(waits);
            let mut here: Vec<_> = here.map(|letter| (self.place(letter), letter.id)).collect();
            here.sort_unstable();
            waiting.extend(here.into_iter().map(|(_, id)| id));
        }
        let now = self.now;
        for (behind, id) in (0..).zip(waiting.into_iter().rev()) {
            let letter = self.letter_mut(id).unwrap();
            letter.next = Some(now - SignedDuration::from_micros(behind));
            letter.deferral = None;
        }
    }
}
