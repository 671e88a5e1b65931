//! The name of a frame, from the line that shows it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

/// JavaScript with a name. The name may be that of a call that goes on later (`async`).
static SCRIPT_NAMED: LazyLock<Regex> =
    LazyLock::new(|| pattern("^at (async )?([^(]+) \\((.+:[0-9]+:[0-9]+|<anonymous>|native|index [0-9]+)\\)$"));
/// JavaScript without a name: the place alone.
static SCRIPT_BARE: LazyLock<Regex> = LazyLock::new(|| pattern("^at (async )?([^(]+:[0-9]+:[0-9]+)$"));
/// .NET and Java: a qualified name and its arguments or its place.
static QUALIFIED: LazyLock<Regex> = LazyLock::new(|| pattern("^at ([^ (]+)\\("));
/// Python.
static PYTHON: LazyLock<Regex> = LazyLock::new(|| pattern("^File \"([^\"]*)\", line [0-9]+(, in (.*))?$"));
/// Go's second line of a frame.
static GO_PLACE: LazyLock<Regex> = LazyLock::new(|| pattern("^\\t(.*\\.go:[0-9]+|.*\\.s:[0-9]+)( \\+0x[0-9a-f]+)?$"));

/// What belongs to the arguments at the end of Go's first line.
static GO_ARGUMENTS: LazyLock<Regex> = LazyLock::new(|| pattern("\\([^(]*$"));
/// Everything before a file's own name.
static FOLDERS: LazyLock<Regex> = LazyLock::new(|| pattern("^.*[/\\\\]"));
static PLACE: LazyLock<Regex> = LazyLock::new(|| pattern(":[0-9]+:[0-9]+$"));
/// A Java module or class loader before the name.
static MODULE: LazyLock<Regex> = LazyLock::new(|| pattern("^[^ ]*/"));

/// What compilers number: addresses, local functions and state machines, proxies and lambdas, F# closures.
static NUMBERED: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        (pattern("0x[0-9A-Fa-f]+"), ""),
        (pattern("__[0-9]+(_[0-9]+)*"), "__"),
        (pattern("[$][$][0-9a-f]+"), "$$$$"),
        (pattern("[$][0-9]+"), "$$"),
        (pattern("@[0-9]+(-[0-9]+)?"), "@"),
    ]
});

/// Names of runtimes and of the messaging library.
static FOREIGN_NAME: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(System|Microsoft|Whizbang|java|javax|jdk|sun|com\\.sun|kotlin|kotlinx|scala)\\."));
/// Packages of Go's own library.
static FOREIGN_GO: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        "^(panic$|(runtime|net|database|reflect|sync|syscall|testing|os|io|bufio|bytes|context|encoding|errors|fmt",
        "|internal|strconv|strings|time|crypto|sort|slices|maps|log|html|text|regexp|math|hash|compress|iter)[./])"
    ))
});
/// Places of Node's own files, and of what it does without a file.
static FOREIGN_SCRIPT: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(node:|internal/|<anonymous>$|native$|index [0-9]+$)"));
/// Python's own files.
static FOREIGN_PYTHON: LazyLock<Regex> =
    LazyLock::new(|| pattern("^<|[/\\\\]lib[/\\\\]python[0-9.]+[/\\\\]|[/\\\\]Python[0-9]+[/\\\\]Lib[/\\\\]"));
/// Folders of packages installed beside the application.
static INSTALLED: LazyLock<Regex> =
    LazyLock::new(|| pattern("[/\\\\](node_modules|site-packages|dist-packages|pkg[/\\\\]mod)[/\\\\]"));

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// The application's, by its name.
    Own(String),
    /// One of somebody else's code.
    Foreign,
}

impl Frame {
    fn of(name: &str, foreign: bool) -> Self {
        if foreign || FOREIGN_NAME.is_match(name) {
            return Self::Foreign;
        }
        let plain = NUMBERED
            .iter()
            .fold(Cow::Borrowed(name), |name, (pattern, by)| Cow::Owned(pattern.replace_all(&name, *by).into_owned()));
        Self::Own(plain.into_owned())
    }
}

/// A line of .NET, Java or JavaScript, without blanks around it; `None` when it shows no frame.
pub(super) fn at(line: &str) -> Option<Frame> {
    if !line.starts_with("at ") {
        return None;
    }
    if let Some(found) = SCRIPT_NAMED.captures(line) {
        return Some(script(found.get(2)?.as_str(), found.get(3)?.as_str()));
    }
    if let Some(found) = SCRIPT_BARE.captures(line) {
        return Some(script("", found.get(2)?.as_str()));
    }
    let name = QUALIFIED.captures(line)?.get(1)?.as_str();
    Some(Frame::of(&MODULE.replace(name, ""), false))
}

fn script(name: &str, place: &str) -> Frame {
    let foreign = FOREIGN_SCRIPT.is_match(place) || INSTALLED.is_match(place);
    let file = FOLDERS.replace(place, "");
    Frame::of(&format!("{name}@{}", PLACE.replace(&file, "")), foreign)
}

/// A line of a Python traceback, without blanks around it.
pub(super) fn python(line: &str) -> Option<Frame> {
    let found = PYTHON.captures(line)?;
    let path = found.get(1)?.as_str();
    let function = found.get(3).map_or("", |function| function.as_str());
    let foreign = FOREIGN_PYTHON.is_match(path) || INSTALLED.is_match(path);
    Some(Frame::of(&format!("{}:{function}", FOLDERS.replace(path, "")), foreign))
}

/// A line that says where the Go function of the line before it is.
pub(super) fn go(before: &str, line: &str) -> Option<Frame> {
    let place = GO_PLACE.captures(line)?.get(1)?.as_str();
    let name = GO_ARGUMENTS.replace(before, "");
    let foreign = before.starts_with("created by ") || FOREIGN_GO.is_match(&name) || INSTALLED.is_match(place);
    Some(Frame::of(&name, foreign))
}
