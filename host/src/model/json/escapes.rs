//! Escapes in JSON that stand for no character a database can hold.

use std::borrow::Cow;

use crate::model::text::NUL_MARK;

/// Stands for half a surrogate pair.
pub const HALF_PAIR_MARK: char = '\u{fffd}';

/// JSON whose strings escape neither U+0000 nor half a surrogate pair: [`NUL_MARK`] and [`HALF_PAIR_MARK`] take their
/// places. Everything else stays as it was written.
#[must_use]
pub fn mend_escapes(given: &str) -> Cow<'_, str> {
    if !given.contains("\\u") {
        return Cow::Borrowed(given);
    }
    let mut kept = String::with_capacity(given.len());
    let mut rest = given;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        kept.push_str(before);
        let (written, length) = read_escape(escape);
        kept.push_str(&written);
        rest = escape.get(length..).unwrap_or_default();
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// What to write for the escape at the front of a text, and how many bytes of the text that stands for.
fn read_escape(escape: &str) -> (Cow<'_, str>, usize) {
    let Some(code) = code_unit(escape) else {
        let length = escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at);
        return (Cow::Borrowed(escape.get(..length).unwrap_or(escape)), length);
    };
    match code {
        0 => (Cow::Owned(NUL_MARK.to_string()), 6),
        0xd800..=0xdbff => {
            let low = escape.get(6..).and_then(code_unit);
            match low {
                Some(0xdc00..=0xdfff) => (Cow::Borrowed(escape.get(..12).unwrap_or(escape)), 12),
                Some(_) | None => (Cow::Owned(HALF_PAIR_MARK.to_string()), 6),
            }
        }
        0xdc00..=0xdfff => (Cow::Owned(HALF_PAIR_MARK.to_string()), 6),
        _ => (Cow::Borrowed(escape.get(..6).unwrap_or(escape)), 6),
    }
}

/// The UTF-16 code unit of a `\uXXXX` escape at the front of a text.
fn code_unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::mend_escapes;

    #[test]
    fn nul_escapes_become_visible() {
        assert_eq!(mend_escapes(r#"{"a":"x\u0000\u0000y"}"#), "{\"a\":\"x\u{2400}\u{2400}y\"}");
    }

    #[test]
    fn an_escaped_backslash_before_u0000_is_left_alone() {
        assert_eq!(mend_escapes(r#"["\\u0000"]"#), r#"["\\u0000"]"#);
        assert_eq!(mend_escapes(r#"["\\\u0000"]"#), "[\"\\\\\u{2400}\"]");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_a_whole_one_kept() {
        assert_eq!(mend_escapes(r#"["\ud83d\ude00"]"#), r#"["\ud83d\ude00"]"#);
        assert_eq!(mend_escapes(r#"["\ud83d", "\ude00"]"#), "[\"\u{fffd}\", \"\u{fffd}\"]");
    }
}
