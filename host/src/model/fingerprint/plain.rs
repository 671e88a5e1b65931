//! A line without what differs from one occurrence to the next.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

/// What is replaced, by what, in this order.
static STEPS: LazyLock<[(Regex, &str); 8]> = LazyLock::new(|| {
    [
        (pattern("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"), "#"),
        (pattern("\"[^\"]*\""), "#"),
        (pattern("`[^`]*`"), "#"),
        // An apostrophe within a word opens no quotation.
        (pattern("(^|[^A-Za-z0-9])'[^']*'"), "${1}#"),
        // Numbers, hex numbers and ids: every word with a digit in it.
        (pattern("[A-Za-z0-9_]*[0-9][A-Za-z0-9_]*"), "#"),
        // Dates, times, decimals, addresses, versions.
        (pattern("#([-+.,:/]#)+"), "#"),
        (pattern("(^|[ (=:])-#"), "${1}#"),
        (pattern("[ \\t]+"), " "),
    ]
});

/// The line with UUIDs, quoted parts, and words with digits replaced by `#`, and blanks as single spaces.
pub(super) fn plain(line: &str) -> String {
    STEPS.iter().fold(line.to_owned(), |line, (pattern, by)| pattern.replace_all(&line, *by).into_owned())
}
