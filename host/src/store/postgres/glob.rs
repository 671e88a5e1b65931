//! Globs over message types, as regular expressions of PostgreSQL.

use std::iter::Peekable;
use std::str::Chars;

/// What a glob matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Texts that match this regular expression from end to end, case-sensitively.
    Regex(String),
    /// Nothing: a set is not closed, or holds no character.
    Nothing,
}

/// Translates a glob: `*` any text, `?` one character, `[abc]`, `[a-z]` one of a set, `[!abc]` or `[^abc]` one
/// outside of it; everything else is itself.
pub(super) fn translate(glob: &str) -> Pattern {
    let mut regex = String::from("^(?:");
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => match set(&mut chars) {
                Some(set) => regex.push_str(&set),
                None => return Pattern::Nothing,
            },
            other => push_literal(&mut regex, other),
        }
    }
    regex.push_str(")$");
    Pattern::Regex(regex)
}

fn push_literal(regex: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(c);
}

/// Reads a set whose opening bracket was read; `None` when nothing can match it.
fn set(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut items = String::new();
    let mut first = true;
    loop {
        let c = chars.next()?;
        if c == ']' && !first {
            break;
        }
        first = false;
        push_item(&mut items, c, chars);
    }
    match (negated, items.is_empty()) {
        (true, true) => Some(".".to_owned()),
        (false, true) => None,
        (true, false) => Some(format!("[^{items}]")),
        (false, false) => Some(format!("[{items}]")),
    }
}

/// Adds one character, or the range that it begins; a range that runs backwards holds nothing.
fn push_item(items: &mut String, from: char, chars: &mut Peekable<Chars<'_>>) {
    let mut ahead = chars.clone();
    let to = match (ahead.next(), ahead.next()) {
        (Some('-'), Some(to)) if to != ']' => to,
        _ => return push_literal(items, from),
    };
    *chars = ahead;
    if from <= to {
        push_literal(items, from);
        items.push('-');
        push_literal(items, to);
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, translate};

    fn regex(glob: &str) -> String {
        match translate(glob) {
            Pattern::Regex(regex) => regex,
            Pattern::Nothing => String::from("nothing"),
        }
    }

    #[test]
    fn stars_and_question_marks_stand_for_text_and_the_rest_for_itself() {
        assert_eq!(regex("Order*"), "^(?:Order.*)$");
        assert_eq!(regex("a?b"), "^(?:a.b)$");
        assert_eq!(regex("a.b+(c)"), r"^(?:a\.b\+\(c\))$");
    }

    #[test]
    fn sets_keep_their_meaning() {
        assert_eq!(regex("[abc]"), "^(?:[abc])$");
        assert_eq!(regex("[!a-c]"), "^(?:[^a-c])$");
        assert_eq!(regex("[^a]"), "^(?:[^a])$");
        assert_eq!(regex("[]a]"), r"^(?:[\]a])$");
        assert_eq!(regex("[a-]"), r"^(?:[a\-])$");
        assert_eq!(regex("[z-a]"), "nothing");
        assert_eq!(regex("[!z-a]"), "^(?:.)$");
        assert_eq!(regex("[abc"), "nothing");
    }
}
