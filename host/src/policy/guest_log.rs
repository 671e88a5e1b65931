//! What guests say, line by line, bounded.

use std::fmt;
use std::fmt::Write as _;

use tracing::Level;
use uuid::Uuid;

use super::Limits;

/// The longest line; what is longer is cut.
const MAX_LINE: usize = 4096;

/// Passes lines of guests on to the host's log, for each entry as many as the limits allow.
#[derive(Debug)]
pub struct GuestLog {
    most_lines: usize,
    most_bytes: usize,
    lines: usize,
    bytes: usize,
    entry: Option<Uuid>,
}

impl GuestLog {
    /// A log with nothing in it.
    pub fn new(limits: &Limits) -> Self {
        Self { most_lines: limits.log_lines, most_bytes: limits.log_bytes, lines: 0, bytes: 0, entry: None }
    }

    /// Starts counting anew for an entry; `None` stands for what a guest does when it starts.
    pub fn begin(&mut self, entry: Option<Uuid>) {
        self.entry = entry;
        self.lines = 0;
        self.bytes = 0;
    }

    /// Passes a text on as lines, whose ends count as bytes of theirs. The first line beyond the bounds is replaced by
    /// a note, the rest is dropped.
    pub fn write(&mut self, policy: &str, level: Level, text: &str) {
        for line in text.split_inclusive('\n') {
            if self.lines > self.most_lines {
                return;
            }
            self.lines += 1;
            self.bytes = self.bytes.saturating_add(line.len());
            let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
            if self.lines > self.most_lines || self.bytes > self.most_bytes {
                self.lines = self.most_lines.saturating_add(1);
                self.emit(policy, Level::WARN, &"the policy logs more than its limits allow: the rest is left out");
                return;
            }
            self.emit(policy, level, &Visible(line));
        }
    }

    fn emit(&self, policy: &str, level: Level, line: &dyn fmt::Display) {
        let entry = self.entry.map(tracing::field::display);
        macro_rules! event {
            ($level:expr) => {
                tracing::event!(target: "reprieve::guest", $level, policy, dead_letter_id = entry, "{line}")
            };
        }
        match level {
            Level::ERROR => event!(Level::ERROR),
            Level::WARN => event!(Level::WARN),
            Level::INFO => event!(Level::INFO),
            _ => event!(Level::DEBUG),
        }
    }
}

/// A guest's words, fit for one line of the host's.
pub fn visible(text: &str) -> String {
    Visible(text).to_string()
}

/// A line cut to its longest, with control characters written as escapes.
struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.floor_char_boundary(MAX_LINE);
        for c in self.0.chars().scan(0, |at, c| {
            let start = *at;
            *at += c.len_utf8();
            (start < cut).then_some(c)
        }) {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        if cut < self.0.len() { f.write_str(" […]") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible_and_long_lines_cut() {
        assert_eq!(Visible("a\u{1b}[31mü\0").to_string(), r"a\u{1b}[31mü\u{0}");
        let long = Visible(&"é".repeat(MAX_LINE)).to_string();
        assert!(long.ends_with(" […]") && long.len() < MAX_LINE + 10);
    }

    #[test]
    fn a_text_of_more_bytes_than_the_bound_is_beyond_it_however_short_its_lines_are() {
        for line in ["\n", "\r\n", "a\n", "aaaa", "\u{fffd}\n"] {
            let text = line.repeat(40);
            let mut log = GuestLog::new(&Limits { log_bytes: text.len(), ..Limits::default() });
            log.write("p", Level::INFO, &text);
            assert!(log.lines <= log.most_lines, "{line:?}");
            let mut log = GuestLog::new(&Limits { log_bytes: text.len() - 1, ..Limits::default() });
            log.write("p", Level::INFO, &text);
            assert!(log.lines > log.most_lines, "{line:?}");
        }
    }

    #[test]
    fn lines_beyond_the_bounds_are_dropped() {
        let mut log = GuestLog::new(&Limits { log_lines: 3, ..Limits::default() });
        log.write("p", Level::INFO, "1\n2\n3\n4\n5");
        assert_eq!(log.lines, 4);
        log.write("p", Level::INFO, "6");
        assert_eq!(log.lines, 4);
        log.begin(None);
        log.write("p", Level::INFO, "1");
        assert_eq!(log.lines, 1);
    }
}
