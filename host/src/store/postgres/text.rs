//! Texts that PostgreSQL cannot hold as they are: a visible mark takes the place of what it refuses.

use std::borrow::Cow;

use crate::model::text::NUL_MARK;

/// A text without NUL characters.
pub(super) fn text(given: &str) -> Cow<'_, str> {
    if given.contains('\0') {
        Cow::Owned(given.replace('\0', NUL_MARK.encode_utf8(&mut [0; 4])))
    } else {
        Cow::Borrowed(given)
    }
}

/// A text that may be absent.
pub(super) fn optional(given: Option<&str>) -> Option<Cow<'_, str>> {
    given.map(text)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn nul_characters_become_visible() {
        assert_eq!(text("a\0b"), "a\u{2400}b");
    }
}
