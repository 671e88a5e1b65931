//! What a comparison found, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::outcome::Difference;
use super::report::{Against, ByKind, Compared, Failed, Report};
use super::tally::{Further, Group};
use crate::cli::policy::cases::expect;
use crate::cli::table::{Table, cut};
use crate::model::text::visible;

/// How many groups of a kind people are shown.
const MAX_SHOWN: usize = 50;
/// How wide a message type may be in a table.
const WIDTH: usize = 60;
/// How much of a digest people are shown.
const DIGEST: usize = 12;

impl Compared {
    fn text(&self) -> String {
        let digest = self.digest.get(..DIGEST).unwrap_or(&self.digest);
        format!("{} ({}), digest {digest}…", visible(&self.name), visible(&self.source))
    }
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let Some(old) = &self.old {
            let _ = writeln!(text, "old: {}", old.text());
        }
        let _ = writeln!(text, "new: {}", self.new.text());
        let _ = writeln!(text, "{}", self.over_text());
        for (kind, heading) in [
            (Difference::Decision, "Decided differently"),
            (Difference::Time, "Waiting until another time"),
            (Difference::Answers, "Answered differently, though the same is done now"),
        ] {
            self.write_kind(kind, heading, &mut text);
        }
        let _ = write!(text, "{}", self.sum());
        text
    }

    fn over_text(&self) -> String {
        let at = self.now.map_or_else(String::new, |now| format!(", at {now:.0}"));
        match &self.over {
            Against::Store(store) => format!("over the rows of {}{at}", visible(store)),
            Against::Entries(file) => format!("over {}{at}", visible(file)),
            Against::Cases(file) => format!("over the cases of {}", visible(file)),
            Against::Recorded(store) => format!("beside what is recorded in {}", visible(store)),
        }
    }

    fn write_kind(&self, kind: Difference, heading: &str, text: &mut String) {
        let groups: Vec<&Group> = self.groups.iter().filter(|group| group.kind == kind).collect();
        let further: Vec<&Further> = self.further.iter().filter(|further| further.kind == kind).collect();
        if groups.is_empty() && further.is_empty() {
            return;
        }
        let rows = groups.iter().map(|group| group.count).chain(further.iter().map(|further| further.count));
        let _ = writeln!(text, "\n{heading}: {}", rows.sum::<u64>());
        let mut table = Table::new(&["  ROWS", "REASON", "MESSAGE TYPE", "OLD", "NEW"]);
        let shown = groups.iter().take(MAX_SHOWN);
        shown.clone().for_each(|group| table.row(cells(group)));
        let examples = shown.map(|group| format!("\n    such as {}", visible(&group.examples.join(", "))));
        // The headings have none.
        let examples = std::iter::once(String::new()).chain(examples);
        for (line, examples) in table.lines().iter().zip(examples) {
            let _ = writeln!(text, "{line}{examples}");
        }
        if let Some(more) = groups.get(MAX_SHOWN..).filter(|more| !more.is_empty()) {
            let rows: u64 = more.iter().map(|group| group.count).sum();
            let _ = writeln!(text, "  and {rows} rows in {} more groups: --json shows them", more.len());
        }
        for Further { from, to, count, .. } in further {
            let _ = writeln!(text, "  and {count} rows, {from} to {to}, in groups beyond those that are told apart");
        }
    }

    fn sum(&self) -> String {
        let what = if matches!(self.over, Against::Recorded(_)) { "recorded decisions" } else { "dead letters" };
        let mut text = String::new();
        if self.unreadable > 0 {
            let _ = writeln!(text, "\n{} could not be read", self.unreadable);
        }
        let Failed { old, new } = self.failed;
        if old + new > 0 {
            let _ = writeln!(text, "\nno answer: about {old} from the old policy, about {new} from the new one");
        }
        let ByKind { decision, time, answers } = self.by_kind;
        let by_old = self.by_old.map_or_else(String::new, |count| format!(", {count} of them made by the old policy"));
        let _ = match self.compared {
            0 => write!(text, "\nnothing was compared: that shows nothing"),
            count if self.differ == 0 => write!(text, "\n{count} {what} compared{by_old}: none differs"),
            count => write!(
                text,
                "\n{count} {what} compared{by_old}: {} differ ({decision} in the decision, {time} in the time, {answers} \
                 in the answers alone)",
                self.differ
            ),
        };
        text
    }
}

fn cells(group: &Group) -> [String; 5] {
    let (old, new) = match group.kind {
        Difference::Decision => (group.from.to_owned(), group.to.to_owned()),
        Difference::Time => (shown(&group.old, "not_before"), shown(&group.new, "not_before")),
        Difference::Answers => (group.answers(&group.old), group.answers(&group.new)),
    };
    [format!("  {}", group.count), group.reason.clone(), cut(&visible(&group.message_type), WIDTH), old, new]
}

impl Group {
    /// The answers that differ, as the first example has them.
    fn answers(&self, document: &Value) -> String {
        let answer = |key: &&str| {
            let name = key.rsplit('.').next().unwrap_or(key);
            format!("{name} {}", cut(&shown(document, key), WIDTH))
        };
        self.changed.iter().map(answer).collect::<Vec<_>>().join(", ")
    }
}

fn shown(document: &Value, key: &str) -> String {
    let value = expect::found(document, key);
    value.as_str().map_or_else(|| value.to_string(), |text| visible(text).into_owned())
}
