//! What a host says of a row that stays where it is because of another one, in its status note and in the record of the
//! decision. Whoever reads such a record finds the other row in it.

use std::fmt::Display;

use uuid::Uuid;

use super::decision::{Predecessor, Siblings};

const SUPERSEDED: &str = "superseded by ";
const BLOCKED: &str = "waits for ";

/// The note about a row whose message has died again since.
#[must_use]
pub fn superseded(newer: impl Display) -> String {
    format!("{SUPERSEDED}{newer}")
}

/// The note about a row that waits for an earlier one of its stream.
#[must_use]
pub fn blocked(earlier: Uuid) -> String {
    format!("{BLOCKED}{earlier}, which stands before it in its stream")
}

/// What the note of a recorded hold or wait says of the row's siblings then. When a predecessor fell due is not in it.
#[must_use]
pub fn siblings(decision: &str, note: Option<&str>) -> Siblings {
    let id_after = |words: &str| -> Option<Uuid> { note?.strip_prefix(words)?.get(..36)?.parse().ok() };
    Siblings {
        superseded_by: (decision == "hold").then(|| id_after(SUPERSEDED)).flatten(),
        predecessor: (decision == "wait")
            .then(|| id_after(BLOCKED))
            .flatten()
            .map(|dead_letter_id| Predecessor { dead_letter_id, due_at: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_read_from_the_notes_about_them() {
        let id = Uuid::from_u128(7);
        let held = siblings("hold", Some(&superseded(id)));
        assert_eq!(held, Siblings { superseded_by: Some(id), predecessor: None });
        let blocked = siblings("wait", Some(&blocked(id)));
        assert_eq!(blocked.predecessor.map(|earlier| earlier.dead_letter_id), Some(id));
        for (decision, note) in [("recover", superseded(id)), ("wait", "its cooldown ends at 2026".to_owned())] {
            assert_eq!(siblings(decision, Some(&note)), Siblings::default());
        }
    }
}
