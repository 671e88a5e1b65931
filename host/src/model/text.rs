//! Texts that others wrote: made fit for a database, and fit to be read by people.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The most bytes of error text that are kept, the mark of a cut included.
pub const MAX_ERROR_TEXT: usize = 64 * 1024;

/// Stands at the end of a text that was cut.
pub const CUT_MARK: &str = "\n[cut at 64 KiB]";

/// Stands for the character U+0000, which PostgreSQL cannot hold in a text.
pub const NUL_MARK: char = '\u{2400}';

/// An error text as it is stored: U+0000 becomes [`NUL_MARK`], and a text longer than [`MAX_ERROR_TEXT`] is cut
/// between two characters and ends with [`CUT_MARK`].
///
/// Cleaning a clean text changes nothing. The SQL function `reprieve_clean_text` gives the same.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut text = without_nul(text.to_owned());
    if text.len() > MAX_ERROR_TEXT {
        text.truncate(text.floor_char_boundary(MAX_ERROR_TEXT - CUT_MARK.len()));
        text.push_str(CUT_MARK);
    }
    text
}

/// A text of any length with U+0000 as [`NUL_MARK`].
#[must_use]
pub fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', NUL_MARK.encode_utf8(&mut [0; 4])) } else { text }
}

/// A text for a terminal or a log line: control characters, and characters that reorder or hide what is beside them,
/// are written as escapes such as `\n` and `\u{1b}`.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if is_hidden(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Line and paragraph separators, bidirectional controls and the byte order mark are no control characters by class.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The first `max` characters of a text, with `…` in place of the rest, control characters visible.
#[must_use]
pub fn excerpt(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", visible(text.get(..end).unwrap_or(text))),
        None => visible(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_stays_as_it_is() {
        assert_eq!(clean("Zeit überschritten 🙂\n\tat x"), "Zeit überschritten 🙂\n\tat x");
    }

    #[test]
    fn a_nul_becomes_visible() {
        assert_eq!(clean("a\0b\0"), "a\u{2400}b\u{2400}");
    }

    #[test]
    fn a_text_of_exactly_the_limit_is_not_cut() {
        let text = "x".repeat(MAX_ERROR_TEXT);
        assert_eq!(clean(&text), text);
    }

    #[test]
    fn a_longer_text_is_cut_with_a_mark_within_the_limit() {
        let cut = clean(&"x".repeat(MAX_ERROR_TEXT + 1));
        assert_eq!(cut.len(), MAX_ERROR_TEXT);
        assert!(cut.ends_with(CUT_MARK));
    }

    #[test]
    fn a_cut_falls_between_characters() {
        for shift in 0..4 {
            let cut = clean(&format!("{}{}", "x".repeat(shift), "🙂".repeat(20_000)));
            assert!(cut.len() <= MAX_ERROR_TEXT && cut.len() > MAX_ERROR_TEXT - 4);
            assert!(cut.ends_with(&format!("🙂{CUT_MARK}")));
        }
    }

    #[test]
    fn cleaning_twice_is_cleaning_once() {
        for text in ["", "a\0", &"\0".repeat(70_000), &"é".repeat(70_000)] {
            assert_eq!(clean(&clean(text)), clean(text));
        }
    }

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(visible("a\x1b[31m\r\n\tb\u{202e}c\0"), "a\\u{1b}[31m\\r\\n\\tb\\u{202e}c\\u{0}");
        assert!(matches!(visible("日本語 🙂"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_excerpt_counts_characters() {
        assert_eq!(excerpt("äöü", 3), "äöü");
        assert_eq!(excerpt("äöüß", 3), "äöü…");
    }
}
