//! The types of an error, from the lines that name them.

use std::sync::LazyLock;

use regex::Regex;

use super::plain::plain;
use super::{BLANK, pattern};

/// What programs print before the type.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        "^(Unhandled exception[.:] |Uncaught (exception: )?|Exception in thread \"[^\"]*\" |Caused by: ",
        "|\\(Inner Exception #[0-9]+\\) )*"
    ))
});
/// A name, perhaps with a code or type arguments, before the message.
static NAMED: LazyLock<Regex> =
    LazyLock::new(|| pattern("^([A-Za-z_][A-Za-z0-9_$.+`]*)(( ?\\([^)]*\\)| ?\\[[^\\]]*\\])?:|$)"));
/// A name that is a type's wherever it stands.
static TYPE_LIKE: LazyLock<Regex> = LazyLock::new(|| pattern("(\\.[A-Z][A-Za-z0-9_$+`]*|Error|Exception)$"));
/// A value that Go's `panic` got, by its type.
static PANIC_VALUE: LazyLock<Regex> = LazyLock::new(|| pattern("^panic: \\(([^)]*)\\)"));
/// What Go's runtime says, which takes the place of a type.
static GO_RUNTIME: LazyLock<Regex> = LazyLock::new(|| pattern("(runtime error|fatal error): .*$"));
/// What Go adds to a panic that was caught and raised again.
static RECOVERED: LazyLock<Regex> = LazyLock::new(|| pattern(" \\[recovered.*$"));

/// A line that may name a type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line<'a> {
    /// One that stands before the first frame.
    Head(&'a str),
    /// One that begins a cause.
    Cause(&'a str),
    /// The one that ends a Python traceback: what it starts with is a type, however it looks.
    TracebackEnd(&'a str),
}

/// The types that a line names, in its order; a cause may follow on the same line after `--->`.
pub(super) fn types_of(line: Line<'_>) -> Vec<String> {
    match line {
        Line::Head(text) => match go_type(text) {
            Some(go) => vec![go],
            None => named_types(text, false),
        },
        Line::Cause(text) => named_types(text, false),
        Line::TracebackEnd(text) => named_types(text, true),
    }
}

fn named_types(line: &str, any_name: bool) -> Vec<String> {
    line.split("---> ").filter_map(|part| named_type(part.trim_matches(BLANK), any_name)).collect()
}

/// The name that starts the text; unless `any_name` is set, it must look like a type's.
fn named_type(text: &str, any_name: bool) -> Option<String> {
    let text = PREFIX.replace(text, "");
    let name = NAMED.captures(&text)?.get(1)?.as_str();
    (any_name || TYPE_LIKE.is_match(name)).then(|| name.to_owned())
}

fn go_type(text: &str) -> Option<String> {
    if let Some(said) = GO_RUNTIME.find(text) {
        return Some(plain(&RECOVERED.replace(said.as_str(), "")));
    }
    if let Some(value) = PANIC_VALUE.captures(text).and_then(|captures| captures.get(1)) {
        return Some(value.as_str().to_owned());
    }
    text.starts_with("panic: ").then(|| "panic".to_owned())
}
