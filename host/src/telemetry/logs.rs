//! The log: for people or for machines, on standard error.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::{MakeVisitor, VisitFmt, VisitOutput};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::util::SubscriberInitExt;

use crate::model::text::visible;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people; control characters of messages and fields are made visible.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A level that the log does not know.
#[derive(Debug, thiserror::Error)]
#[error(
    "log level {level:?} is not understood: {problem}; write error, warn, info, debug or trace, or directives such as reprieve=debug"
)]
pub struct LevelError {
    level: String,
    problem: String,
}

/// Starts the log. `level` is a level or a comma-separated list of `target=level`. A log that was started before stays.
///
/// # Errors
///
/// When the level is not understood.
pub fn start(format: LogFormat, level: &str) -> Result<(), LevelError> {
    let refused = |problem| LevelError { level: level.to_owned(), problem };
    // To the filter, a word that is no level is a target of which everything is logged, and nothing else.
    let mut words = level.split(',').map(str::trim).filter(|word| !word.contains('='));
    if let Some(unknown) = words.find(|word| word.parse::<LevelFilter>().is_err()) {
        return Err(refused(format!("{unknown:?} is no level")));
    }
    let filter = EnvFilter::builder().parse(level).map_err(|error| refused(error.to_string()))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A log that cannot be written, since its reader or its disk is gone, must not end what it speaks of.
    let log = log.log_internal_errors(false);
    // A second start, as in tests, leaves the first log in place.
    let _ = match format {
        LogFormat::Text => log.with_ansi(false).fmt_fields(VisibleFields).finish().try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().try_init(),
    };
    Ok(())
}

/// Writes `message key=value …` on one line, whatever the values hold.
struct VisibleFields;

impl<'writer> MakeVisitor<Writer<'writer>> for VisibleFields {
    type Visitor = VisibleVisitor<'writer>;

    fn make_visitor(&self, target: Writer<'writer>) -> Self::Visitor {
        VisibleVisitor { writer: target, result: Ok(()), first: true }
    }
}

struct VisibleVisitor<'writer> {
    writer: Writer<'writer>,
    result: fmt::Result,
    first: bool,
}

impl VisibleVisitor<'_> {
    fn write(&mut self, field: &Field, value: &str) {
        if self.result.is_err() {
            return;
        }
        let space = if std::mem::replace(&mut self.first, false) { "" } else { " " };
        let value = visible(value);
        self.result = match field.name() {
            "message" => write!(self.writer, "{space}{value}"),
            name => write!(self.writer, "{space}{name}={value}"),
        };
    }
}

impl Visit for VisibleVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

impl VisitOutput<fmt::Result> for VisibleVisitor<'_> {
    fn finish(self) -> fmt::Result {
        self.result
    }
}

impl VisitFmt for VisibleVisitor<'_> {
    fn writer(&mut self) -> &mut dyn fmt::Write {
        &mut self.writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_level_is_refused_with_what_is_allowed() {
        for level in ["reprieve=loudly", "loud", "info,wran"] {
            let error = start(LogFormat::Text, level).unwrap_err().to_string();
            assert!(error.contains(level) && error.contains("debug"), "{error}");
        }
    }
}
