//! Counting differences in groups, in bounded memory.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use super::outcome::{Difference, FAILS, Outcome, changed};
use crate::cli::table::cut;
use crate::model::{DeadLetter, FailureReason};

/// How many groups are told apart. Message types may be as many as messages.
pub const MAX_GROUPS: usize = 1000;
/// How many examples a group keeps.
const MAX_EXAMPLES: usize = 3;
/// How many characters of a message type tell groups apart.
const MAX_MESSAGE_TYPE: usize = 200;
/// How many characters of an example are kept.
const MAX_EXAMPLE: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Difference,
    reason: FailureReason,
    message_type: String,
    from: &'static str,
    to: &'static str,
    changed: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Members {
    count: u64,
    examples: Vec<String>,
    old: Value,
    new: Value,
}

/// What was counted. However many rows there are and whatever they hold, it keeps [`MAX_GROUPS`] groups.
#[derive(Debug, Default)]
pub struct Tally {
    /// Rows that both sides were asked about.
    pub compared: u64,
    /// Rows that could not be read.
    pub unreadable: u64,
    /// Rows on which the old side failed.
    pub old_fails: u64,
    /// Rows on which the new side failed.
    pub new_fails: u64,
    /// Rows that differ, by kind.
    pub by_kind: BTreeMap<Difference, u64>,
    groups: HashMap<Key, Members>,
    further: BTreeMap<(Difference, &'static str, &'static str), u64>,
}

/// Rows that differ in the same way.
#[derive(Debug, Serialize)]
pub struct Group {
    /// In what they differ.
    pub kind: Difference,
    /// Why they died.
    pub reason: String,
    /// What they are.
    pub message_type: String,
    /// What the old side does.
    pub from: &'static str,
    /// What the new side does.
    pub to: &'static str,
    /// Which answers differ, when that is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<&'static str>,
    /// How many.
    pub count: u64,
    /// Some of them.
    pub examples: Vec<String>,
    /// The old side's answers and decision about the first example.
    pub old: Value,
    /// The new side's.
    pub new: Value,
}

/// Rows of groups beyond those that are told apart.
#[derive(Debug, Serialize)]
pub struct Further {
    /// In what they differ.
    pub kind: Difference,
    /// What the old side does.
    pub from: &'static str,
    /// What the new side does.
    pub to: &'static str,
    /// How many.
    pub count: u64,
}

impl Tally {
    /// Counts one row; `example` is what it is called if it is to be shown.
    pub fn add(&mut self, entry: &DeadLetter, old: &Outcome, new: &Outcome, example: impl FnOnce() -> String) {
        self.compared += 1;
        self.old_fails += u64::from(old.decision == FAILS);
        self.new_fails += u64::from(new.decision == FAILS);
        let Some(kind) = old.difference(new) else { return };
        *self.by_kind.entry(kind).or_default() += 1;
        let answers = kind == Difference::Answers;
        let key = Key {
            kind,
            reason: entry.failure_reason,
            message_type: cut(&entry.message_type, MAX_MESSAGE_TYPE),
            from: old.decision,
            to: new.decision,
            changed: if answers { changed(&old.document(), &new.document()) } else { Vec::new() },
        };
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            *self.further.entry((kind, key.from, key.to)).or_default() += 1;
            return;
        }
        let members = self.groups.entry(key).or_default();
        members.count += 1;
        if members.examples.is_empty() {
            (members.old, members.new) = (old.document(), new.document());
        }
        if members.examples.len() < MAX_EXAMPLES {
            members.examples.push(cut(&example(), MAX_EXAMPLE));
        }
    }

    /// How many rows differ.
    pub fn differing(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// The groups, decisions before times before answers, the largest first.
    pub fn into_groups(self) -> (Vec<Group>, Vec<Further>) {
        let group = |(key, members): (Key, Members)| Group {
            kind: key.kind,
            reason: key.reason.to_string(),
            message_type: key.message_type,
            from: key.from,
            to: key.to,
            changed: key.changed,
            count: members.count,
            examples: members.examples,
            old: members.old,
            new: members.new,
        };
        let mut groups: Vec<Group> = self.groups.into_iter().map(group).collect();
        groups.sort_by(|a, b| {
            let order = |group: &Group| (group.kind, std::cmp::Reverse(group.count));
            let name = |group: &Group| (group.reason.clone(), group.message_type.clone(), group.from, group.to);
            order(a).cmp(&order(b)).then_with(|| name(a).cmp(&name(b))).then_with(|| a.changed.cmp(&b.changed))
        });
        let further = |((kind, from, to), count)| Further { kind, from, to, count };
        (groups, self.further.into_iter().map(further).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use jiff::Timestamp;

    use super::*;
    use crate::model::json::parse_entry;

    fn add(tally: &mut Tally, message_type: &str, old: &'static str, new: &'static str) {
        let text = serde_json::json!({ "failure_reason": 8, "message_type": message_type }).to_string();
        let entry = parse_entry(&text, Timestamp::UNIX_EPOCH).unwrap();
        let outcome = |decision| Outcome::recorded(decision, None, None);
        tally.add(&entry, &outcome(old), &outcome(new), || message_type.to_owned());
    }

    #[test]
    fn groups_and_what_they_keep_are_bounded_and_every_row_is_counted() {
        let mut tally = Tally::default();
        for n in 0..2 * MAX_GROUPS {
            add(&mut tally, &format!("{n}{}", "x".repeat(5000)), "recover", "hold");
        }
        add(&mut tally, &format!("0{}", "x".repeat(5000)), "recover", "hold");
        assert_eq!((tally.compared, tally.differing()), (2001, 2001));

        let (groups, further) = tally.into_groups();

        assert_eq!((groups.len(), groups[0].count), (MAX_GROUPS, 2));
        assert!(groups.iter().all(|group| group.message_type.chars().count() == MAX_MESSAGE_TYPE));
        assert!(groups.iter().flat_map(|group| &group.examples).all(|name| name.chars().count() == MAX_EXAMPLE));
        assert_eq!((further.len(), further[0].count), (1, 1000));
    }

    #[test]
    fn the_largest_groups_of_a_kind_come_first_with_three_examples() {
        let mut tally = Tally::default();
        for (message_type, rows) in [("Rare", 1), ("Common", 5), ("Same", 0)] {
            (0..rows).for_each(|_| add(&mut tally, message_type, "recover", "hold"));
        }
        add(&mut tally, "Same", "hold", "hold");
        let (groups, further) = tally.into_groups();
        let counts: Vec<(&str, u64, usize)> =
            groups.iter().map(|group| (group.message_type.as_str(), group.count, group.examples.len())).collect();
        assert_eq!(counts, [("Common", 5, MAX_EXAMPLES), ("Rare", 1, 1)]);
        assert!(further.is_empty());
    }
}
