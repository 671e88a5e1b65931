//! What a policy may use.

use std::time::Duration;

/// What one policy may use; memory and log are summed over the members of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One question, answered by the whole chain.
    pub call_time: Duration,
    /// Instantiating the whole chain.
    pub start_time: Duration,
    /// Bytes of linear memory.
    pub memory_bytes: usize,
    /// Bytes of stack for each member.
    pub stack_bytes: usize,
    /// Core instances of each member.
    pub instances: usize,
    /// Linear memories of each member.
    pub memories: usize,
    /// Tables of each member.
    pub tables: usize,
    /// Elements of each table.
    pub table_elements: usize,
    /// Characters of a policy's name.
    pub name_chars: usize,
    /// Lines that one entry may log.
    pub log_lines: usize,
    /// Bytes that one entry may log.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_time: Duration::from_millis(100),
            start_time: Duration::from_secs(5),
            memory_bytes: 64 << 20,
            stack_bytes: 512 << 10,
            instances: 64,
            memories: 4,
            tables: 8,
            table_elements: 65_536,
            name_chars: 200,
            log_lines: 100,
            log_bytes: 64 << 10,
        }
    }
}

/// A limit outside of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy limit {name} is {value}, allowed are {range}")]
pub struct LimitError {
    /// The field's name.
    pub name: &'static str,
    /// What was given.
    pub value: String,
    /// What is allowed.
    pub range: String,
}

impl Limits {
    /// Checks every limit against its range.
    ///
    /// # Errors
    ///
    /// The first limit that is out of range, with its range.
    pub fn checked(self) -> Result<Self, LimitError> {
        time("call_time", self.call_time, Duration::from_millis(1), Duration::from_secs(60))?;
        time("start_time", self.start_time, Duration::from_millis(10), Duration::from_secs(300))?;
        count("memory_bytes", self.memory_bytes, 64 << 10, 1 << 30)?;
        count("stack_bytes", self.stack_bytes, 64 << 10, 8 << 20)?;
        count("instances", self.instances, 1, 1000)?;
        count("memories", self.memories, 1, 16)?;
        count("tables", self.tables, 1, 64)?;
        count("table_elements", self.table_elements, 1, 1 << 20)?;
        count("name_chars", self.name_chars, 1, 1000)?;
        count("log_lines", self.log_lines, 0, 10_000)?;
        count("log_bytes", self.log_bytes, 0, 16 << 20)?;
        Ok(self)
    }
}

fn count(name: &'static str, value: usize, least: usize, most: usize) -> Result<(), LimitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LimitError { name, value: value.to_string(), range: format!("{least} to {most}") })
}

fn time(name: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), LimitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LimitError { name, value: format!("{value:?}"), range: format!("{least:?} to {most:?}") })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_defaults_are_within_their_ranges() {
        assert_eq!(Limits::default().checked(), Ok(Limits::default()));
    }

    #[test]
    fn a_limit_out_of_range_is_named_with_its_range() {
        let error = Limits { memories: 17, ..Limits::default() }.checked().unwrap_err();
        assert_eq!(error.to_string(), "policy limit memories is 17, allowed are 1 to 16");
        let error = Limits { call_time: Duration::ZERO, ..Limits::default() }.checked().unwrap_err();
        assert_eq!(error.to_string(), "policy limit call_time is 0ns, allowed are 1ms to 60s");
    }
}
