//! What two occurrences of one fault have in common.
//!
//! [`fingerprint`] and the SQL function `reprieve_error_fingerprint` follow the same steps, so that a dead letter gets
//! the same fingerprint wherever it was moved: the lines that matter are found (`trace`), the types taken from some
//! (`kind`), the names of frames from others (`frame`), and a text without either is made plain (`plain`). The regular
//! expressions keep to what the dialects of both engines understand alike: ASCII classes, greedy repetition, no word
//! boundaries, no choice whose order could matter. A change of the steps is a new [`VERSION`].

mod frame;
mod kind;
mod plain;
mod trace;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use regex::Regex;
use sha2::{Digest, Sha256};

/// Which steps a fingerprint was made by.
pub const VERSION: i16 = 1;

/// The characters that surround a line without belonging to it.
const BLANK: [char; 3] = [' ', '\t', '\r'];

/// How many frames count.
const MAX_FRAMES: usize = 3;

/// The fingerprint of an error text: 16 lower-case hex digits.
///
/// They are the first of SHA-256 over the error's types (the outer one and its causes) and its first three application
/// frames. Frames of runtimes, of the messaging library and of packages installed beside the application are left out,
/// as are messages, line numbers, addresses, arguments and folders. A text without any type or frame counts by its
/// first line, with numbers, ids and quoted parts replaced. The empty text has a fingerprint, too.
#[must_use]
pub fn fingerprint(error_text: &str) -> String {
    let digest = Sha256::digest(canonical(error_text).as_bytes());
    digest.iter().take(8).fold(String::with_capacity(16), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The text that is hashed: types and frames, one a line, or the first line made plain.
fn canonical(error_text: &str) -> String {
    let lines: Vec<&str> = error_text.split('\n').collect();
    let trace = trace::read(&lines);
    if trace.types.is_empty() && trace.frames.is_empty() {
        let first = lines.iter().map(|line| line.trim_matches(BLANK)).find(|line| !line.is_empty());
        return format!("text\n{}", plain::plain(first.unwrap_or("")));
    }
    let mut canonical = format!("error\n{}", trace.types.join(" < "));
    for frame in trace.frames.iter().take(MAX_FRAMES) {
        canonical.push('\n');
        canonical.push_str(frame);
    }
    canonical
}

/// Compiles a pattern that is written in this module.
#[allow(clippy::expect_used, reason = "the patterns are constants, and the tests compile every one")]
fn pattern(text: &'static str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}
