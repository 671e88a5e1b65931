//! Lines of bounded length.

use std::io::{self, BufRead};

use crate::model::json::FieldError;

/// The longest line that is read, in bytes: 16 MiB.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1; blank lines count.
    pub number: u64,
    /// Its text, or why it is none.
    pub text: Result<String, FieldError>,
}

/// Goes through the lines of an input that are not blank. Memory stays within [`MAX_LINE`], however long a line is.
pub fn read_lines<R: BufRead>(reader: R) -> Lines<R> {
    Lines { reader, number: 0, broken: false }
}

/// The iterator of [`read_lines`]. It ends after the first fault of the input.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    number: u64,
    broken: bool,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.broken {
            let (bytes, length) = match self.line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.broken = true;
                    return Some(Err(error));
                }
            };
            self.number += 1;
            if length > MAX_LINE as u64 {
                return Some(Ok(Line { number: self.number, text: Err(too_long(length)) }));
            }
            let bytes = if self.number == 1 { bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes) } else { &bytes };
            if !bytes.trim_ascii().is_empty() {
                return Some(Ok(Line { number: self.number, text: text(bytes) }));
            }
        }
        None
    }
}

impl<R: BufRead> Lines<R> {
    /// The next line without its end, and how long it is; the bytes are dropped once it is too long. `None` at the end.
    fn line(&mut self) -> io::Result<Option<(Vec<u8>, u64)>> {
        let (mut kept, mut length, mut any) = (Vec::new(), 0_u64, false);
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(any.then_some((kept, length)));
            }
            any = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            length += part.len() as u64;
            if length > MAX_LINE as u64 {
                kept = Vec::new();
            } else {
                kept.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some((kept, length)));
            }
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, FieldError> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let shown = String::from_utf8_lossy(bytes);
            Err(FieldError::new("", &shown, format!("no UTF-8 at byte {}", error.valid_up_to() + 1)))
        }
    }
}

fn too_long(length: u64) -> FieldError {
    FieldError::new("", "", format!("the line has {length} bytes, at most {MAX_LINE} (16 MiB) are read"))
}
