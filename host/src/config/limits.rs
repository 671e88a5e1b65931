//! `[policy.limits]`: what a policy may use.

use std::time::Duration;

use super::error::ConfigError;
use super::settings::Settings;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// What one policy may use; memory and log are summed over the members of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
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

impl LimitsConfig {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
        let call_time = settings.duration("policy.limits.call_time", millis(100), millis(1)..=seconds(60))?;
        let start_time = settings.duration("policy.limits.start_time", seconds(5), millis(10)..=seconds(300))?;
        let memory_bytes = settings.bytes("policy.limits.memory_bytes", 64 * MIB, 64 * KIB..=1024 * MIB)?;
        let stack_bytes = settings.bytes("policy.limits.stack_bytes", 512 * KIB, 64 * KIB..=8 * MIB)?;
        let log_bytes = settings.bytes("policy.limits.log_bytes", 64 * KIB, 0..=16 * MIB)?;
        let mut count = |key, default, most, least| -> Result<usize, ConfigError> {
            Ok(usize::try_from(settings.count(key, default, least..=most)?).unwrap_or(usize::MAX))
        };
        Ok(Self {
            call_time,
            start_time,
            memory_bytes,
            stack_bytes,
            instances: count("policy.limits.instances", 64, 1000, 1)?,
            memories: count("policy.limits.memories", 4, 16, 1)?,
            tables: count("policy.limits.tables", 8, 64, 1)?,
            table_elements: count("policy.limits.table_elements", 65_536, 1 << 20, 1)?,
            name_chars: count("policy.limits.name_chars", 200, 1000, 1)?,
            log_lines: count("policy.limits.log_lines", 100, 10_000, 0)?,
            log_bytes,
        })
    }
}
