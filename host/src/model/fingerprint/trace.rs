//! The types and frames that an error text shows.

use super::BLANK;
use super::frame::{self, Frame};
use super::kind::{Line, types_of};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The outer type and the causes, each once, in the order of the text.
    pub(super) types: Vec<String>,
    /// The application's frames, the innermost first.
    pub(super) frames: Vec<String>,
}

/// Reads .NET, Java, Python, Go and JavaScript, told apart line by line.
pub(super) fn read(lines: &[&str]) -> Trace {
    let mut reader = Reader::default();
    let mut before = "";
    for line in lines {
        reader.line(before, line);
        before = line;
    }
    reader.end()
}

#[derive(Debug, Default)]
struct Reader<'a> {
    /// Lines before the first frame.
    head: Vec<&'a str>,
    /// Lines that name causes, or end a traceback.
    named: Vec<Line<'a>>,
    frames: Vec<Frame>,
    /// Frames of the last Python traceback: those before it belong to the causes.
    traceback: Vec<Frame>,
    /// Whether a frame was seen.
    any_frame: bool,
    /// Whether the last frame was Python's, so that a line without an indent names the type.
    in_traceback: bool,
    /// Whether Go has gone on to a goroutine other than the one that failed.
    other_goroutine: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, before: &'a str, line: &'a str) {
        let text = line.trim_matches(BLANK);
        if text.is_empty() {
            return;
        }
        if text == "Traceback (most recent call last):" {
            self.traceback.clear();
            self.in_traceback = false;
        } else if let Some(frame) = frame::python(text) {
            self.traceback.push(frame);
            self.any_frame = true;
            self.in_traceback = true;
        } else if let Some(frame) = frame::at(text) {
            self.frames.push(frame);
            self.any_frame = true;
        } else if let Some(frame) = frame::go(before.trim_matches(BLANK), line.trim_end_matches(BLANK)) {
            if !self.other_goroutine {
                self.frames.push(frame);
            }
            self.any_frame = true;
        } else {
            self.words(line, text);
        }
    }

    /// A line that shows no frame.
    fn words(&mut self, line: &str, text: &'a str) {
        if text.starts_with("Caused by: ") || text.starts_with("---> ") {
            self.named.push(Line::Cause(text));
        } else if self.in_traceback && !line.starts_with(BLANK) {
            self.named.push(Line::TracebackEnd(text));
            self.in_traceback = false;
        } else if !self.any_frame {
            self.head.push(text);
        } else if text.starts_with("goroutine ") {
            self.other_goroutine = true;
        }
    }

    fn end(self) -> Trace {
        // Without a frame to end it, the head is the whole text, and only its first line is about the error.
        let head_lines = if self.any_frame { self.head.len() } else { 1 };
        let head =
            self.head.iter().take(head_lines).map(|text| types_of(Line::Head(text))).find(|found| !found.is_empty());
        let mut types = Vec::new();
        for name in head.into_iter().flatten().chain(self.named.into_iter().flat_map(types_of)) {
            if !types.contains(&name) {
                types.push(name);
            }
        }
        let frames = if self.traceback.is_empty() { self.frames } else { self.traceback.into_iter().rev().collect() };
        let own = frames.into_iter().filter_map(|frame| match frame {
            Frame::Own(name) => Some(name),
            Frame::Foreign => None,
        });
        Trace { types, frames: own.collect() }
    }
}
