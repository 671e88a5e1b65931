//! What identifies components and policies.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::member::Member;

/// The SHA-256 of a file, as 64 hex digits.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// For each member the SHA-256 of the chain that begins with it: of components and settings, in order. The first one
/// is the digest of the whole.
pub fn of_chains(members: &[Member]) -> Vec<String> {
    (0..members.len()).map(|first| of_chain(members.iter().skip(first))).collect()
}

fn of_chain<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let mut hash = Sha256::new();
    for member in members {
        // A length before each part: no two chains have the same text.
        for part in [&member.sha256, &member.settings] {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
