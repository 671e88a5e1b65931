//! Data on standard output.
//!
//! A reader that goes away (`reprieve list | head`) ends the writing, not with an error: [`Output`] swallows it.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use serde::Serialize;

/// Standard output, for people or for machines.
pub struct Output {
    to: BufWriter<StdoutLock<'static>>,
    json: bool,
    gone: bool,
}

impl Output {
    /// Output as JSON, or as text for people.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self { to: BufWriter::new(io::stdout().lock()), json, gone: false }
    }

    /// Whether machines read it.
    #[must_use]
    pub const fn json(&self) -> bool {
        self.json
    }

    /// Whether the reader went away, so that writing on is of no use.
    #[must_use]
    pub const fn gone(&self) -> bool {
        self.gone
    }

    /// Writes a line of text.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written to, unless its reader went away.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.write(text.as_ref().as_bytes())
    }

    /// Writes a value as JSON on a line of its own.
    ///
    /// # Errors
    ///
    /// As [`Output::line`].
    pub fn document(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        self.write(&text)
    }

    /// Writes a value as JSON for machines, and for people what `text` makes of it.
    ///
    /// # Errors
    ///
    /// As [`Output::line`].
    pub fn either<T: Serialize>(&mut self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        if self.json { self.document(value) } else { self.line(text(value)) }
    }

    /// Hands on what was written so far.
    ///
    /// # Errors
    ///
    /// As [`Output::line`].
    pub fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.still_there(flushed)
    }

    /// Ends the output.
    ///
    /// # Errors
    ///
    /// As [`Output::line`].
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let written = self.to.write_all(line).and_then(|()| self.to.write_all(b"\n"));
        self.still_there(written)
    }

    fn still_there(&mut self, written: io::Result<()>) -> io::Result<()> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.gone = true;
                Ok(())
            }
            Err(error) => Err(io::Error::new(error.kind(), format!("standard output cannot be written to: {error}"))),
            Ok(()) => Ok(()),
        }
    }
}

/// Tells a person something on standard error.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // Nobody is left to be told that standard error is closed.
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}
pub(crate) use tell;
